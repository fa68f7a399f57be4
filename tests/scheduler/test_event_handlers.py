"""What informers report reaches the queue: which events follow, in which order, and for whom."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.doors.engine import IndexedObjects, NodeHandler, Notice, schedule_one
from tests.doors.store import store
from tests.make import configuration, node, pod
from tests.queue.ask import thing
from tests.queue.make import Clock

from moorage import Scheduler
from moorage.engine.queue import QueuedPodInfo, SchedulingQueue
from moorage.engine.scheduler import Rejectors
from moorage.errors import InputError
from moorage.kube import Cluster, Condition, Node, Pod
from moorage.kube.releases import DEFAULT
from moorage.store import DeletedFinalStateUnknown

SEEN: list[tuple[str, str, str, bool]] = []


@pytest.fixture
def one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """A scheduler with a pod in flight, so that nobody thinks events could be left out."""
    version: str = getattr(request, "param", DEFAULT)
    scheduler = Scheduler(clock=Clock(), config=None, kubernetes_version=version)
    scheduler.client.create(pod("flying"))
    scheduler.sync()
    assert scheduler.queue.pop()
    SEEN.clear()
    move = SchedulingQueue.move_all

    def see(self: SchedulingQueue, event: Any, changes: Iterable[Notice[Any]], check: Any = None) -> None:
        listed = list(changes)
        for one in listed:
            names = [each.name if each else "" for each in (one.old, one.new)]
            SEEN.append((event.label, *names, check is not None))
        move(self, event, listed, check)

    monkeypatch.setattr(SchedulingQueue, "move_all", see)
    return scheduler


def give_back(one: Scheduler, info: QueuedPodInfo, rejectors: Rejectors) -> None:
    one.queue.give_back([info], [one.pods.indexer.get(info.pod.key)], [rejectors])


def seen() -> list[tuple[str, str, str, bool]]:
    found = SEEN.copy()
    SEEN.clear()
    return found


def labels() -> list[str]:
    return [label for label, _, _, _ in seen()]


def write(scheduler: Scheduler, obj: Any) -> Any:
    """Create or update an object, whatever version of it there is."""
    known = [held.name for held in scheduler.client.list(type(obj))[0]]
    meta = replace(obj.metadata, resource_version="", uid="" if obj.name in known else obj.metadata.uid)
    put = scheduler.client.update if obj.name in known else scheduler.client.create
    stored = put(replace(obj, metadata=meta))
    scheduler.sync()
    return stored


def with_meta(one: Pod, **meta: Any) -> Pod:
    return replace(one, metadata=replace(one.metadata, **meta))


def with_status(one: Pod, **status: Any) -> Pod:
    return replace(one, status=replace(one.status, **status))


def test_a_node_that_is_gone_already_is_logged(one: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    NodeHandler(one.cache, one.queue).on_delete(node("gone"))
    assert "gone" in caplog.text
    assert [level for _, level, _ in caplog.record_tuples] == [logging.ERROR]


def test_new_nodes_are_added_in_one_step(one: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number:03}" for number in range(150)]
    expected = Scheduler(Cluster(nodes=list(map(node, names))))
    scheduler, single = Scheduler(), []
    monkeypatch.setattr(NodeHandler, "on_add", lambda self, obj, initial: single.append(obj.name))
    scheduler.client.create_many(map(node, names))
    scheduler.sync()
    assert not single
    assert scheduler.context.view_order() == expected.context.view_order() == names
    assert [scheduler.cache.state.table.row_name(row) for row in range(150)] == names


def test_new_nodes_are_added_up_to_one_that_cannot_be_read() -> None:
    scheduler = Scheduler()
    names = [f"n{number:03}" for number in range(100)]
    wrong = replace(node("wrong"), status=replace(node("wrong").status, allocatable={"cpu": "x"}))
    scheduler.client.create_many([*map(node, names), wrong, node("last")])
    with pytest.raises(InputError, match="wrong"):
        scheduler.sync()
    assert scheduler.context.view_order() == names
    scheduler.sync()  # the notice that has failed is gone
    assert scheduler.context.view_order() == [*names, "last"]


def test_new_nodes_are_added_up_to_one_that_is_malformed() -> None:
    scheduler = Scheduler()
    wrong = replace(node("wrong"), status=replace(node("wrong").status, images=(None,)))
    scheduler.client.create_many([node("a"), wrong, node("b")])
    with pytest.raises(AttributeError):
        scheduler.sync()
    scheduler.sync()
    assert scheduler.context.view_order() == ["a", "b"]


def test_a_node_goes_from_the_cache_after_its_event(one: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    write(one, node("n"))
    there: list[list[str]] = []
    monkeypatch.setattr(
        SchedulingQueue,
        "move_all",
        lambda self, event, changes, check=None: there.append(one.context.view_order()),
    )
    one.client.delete(Node, "n")
    one.sync()
    assert (there, one.context.view_order()) == ([["n"]], [])


def test_evicted_pods_are_removed_in_one_step(one: Scheduler) -> None:
    write(one, node("n"))
    for name in ("p", "q", "r"):
        write(one, pod(name, on="n"))
    one.queue.nominator.put(pod("q"), "n")
    for name in ("p", "q"):
        one.client.evict([one.client.get(Pod, name, "default")], Condition(type="DisruptionTarget"))
    one.client.update(with_status(one.client.get(Pod, "r", "default"), phase="Running"))
    seen()
    handled = []
    on_run = one.pods.on_run

    def note(notices: Any) -> int:
        handled.append(on_run(notices))
        return handled[-1]

    (registration,) = [r for r in one.informers.informer(Pod)._registrations if r.handler is one.pods]
    registration._on_run = note
    one.sync()
    evicted = [
        event
        for name in "pq"
        for event in (("AssignedPodUpdate", name, name, False), ("AssignedPodDelete", name, "", False))
    ]
    assert seen() == [*evicted, ("AssignedPodUpdate", "r", "r", False)]
    assert handled == [4, 0]
    found = [
        (event.label, old.name, "" if new is None else new.status.conditions[-1].type)
        for event, old, new in one.queue.in_flight_events()
        if old is not None and old.name in "pq"
    ]
    events = [("AssignedPodUpdate", "p", "DisruptionTarget"), ("AssignedPodDelete", "p", "")]
    assert found == [*events, *((label, "q", what) for label, _, what in events)]
    assert [one.cache.state.has_pod(pod(name)) for name in ("p", "q", "r")] == [False, False, True]
    assert not one.queue.nominator


def test_evicted_pods_are_not_made_where_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    one, made = Scheduler(clock=Clock()), list[Any]()
    for name in ("_with_condition", "_last_state"):
        monkeypatch.setattr(store, name, lambda *arguments: made.append(arguments))
    write(one, node("n"))
    waiting = [write(one, pod("p")), write(one, pod("q"))]
    one.run()
    assert not one.queue.is_listening()
    assert one.client.evict(waiting, Condition(type="DisruptionTarget")) == [True, True]
    one.sync()
    left = [each.name for each in one.pods.indexer.values()]
    assert (made, one.cache.state.pods(), left) == ([], [], [])


def test_new_pods_on_nodes_are_added_in_one_step(one: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("p", "q", "r")
    notices = [Notice(None, each, True) for each in (*(pod(name, on="n") for name in names), pod("waits"))]
    assert one.pods.on_run(notices) == 3
    assert seen() == [("AssignedPodAdd", "", name, False) for name in names]
    assert [one.cache.state.get_pod(pod(name)).spec.node_name for name in names] == ["n"] * 3
    finished = with_status(pod("s", on="n"), phase="Failed")
    assert one.pods.on_run([Notice(None, pod("t", on="n")), Notice(None, finished)]) == 1
    assert not one.cache.state.has_pod(finished)


def test_a_new_pod_that_the_cache_has_does_not_keep_the_others_out(
    one: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    one.cache.add_pod(pod("q", on="n"))
    assert one.pods.on_run([Notice(None, pod(name, on="n")) for name in ("p", "q", "r")]) == 3
    assert [one.cache.state.has_pod(pod(name)) for name in ("p", "q", "r")] == [True] * 3
    assert caplog.messages == ["pod default/q was already in added state"]
    assert labels() == ["AssignedPodAdd"] * 3


def test_a_new_pod_that_cannot_be_read_is_left_to_be_reported(one: Scheduler) -> None:
    bad = pod("bad", on="n", requests={f"example.com/{at}": 1 for at in range(200)})
    notices = [Notice(None, each) for each in (pod("p", on="n"), bad, pod("q", on="n"))]
    assert one.pods.on_run(notices) == 1
    assert one.pods.on_run(notices[1:]) == 0
    with pytest.raises(ValueError, match="at most"):
        one.pods.on_add(bad, True)
    assert one.pods.on_run(notices[2:]) == 1


def reported(one: Scheduler, pods: Sequence[Pod], write: Callable[[], object]) -> list[Notice[Pod]]:
    """What an informer that has some pods makes of a write; the handlers of the scheduler have not received
    it."""
    objects, notices = IndexedObjects[Pod](), list[Notice[Pod]]()
    objects.replace({each.key: each for each in pods})
    _, version = one.client.list(Pod)
    with one.client.watch(Pod, resource_version=version) as watch:
        write()
        objects.apply(watch.poll(), tuple, notices)
    return notices


@pytest.mark.parametrize("how", ["on a node", "waiting", "finished", "by others"])
def test_only_pods_on_nodes_that_are_evicted_are_removed_in_one_step(one: Scheduler, how: str) -> None:
    write(one, node("n"))
    held = write(one, pod("p", on="" if how == "waiting" else "n"))
    if how == "finished":
        held = one.client.update(with_status(held, phase="Failed"))

    def evict() -> None:
        if how == "by others":
            one.client.delete(Pod, "p", "default")
        else:
            one.client.evict([held], Condition(type="DisruptionTarget"))

    assert one.pods.on_run(reported(one, [held], evict)) == (2 if how == "on a node" else 0)


def bound_by_others(one: Scheduler, *names: str) -> list[Notice[Pod]]:
    """Pods that wait in the queue, as others have bound them to node n; no handler has received that."""
    held = [one.client.get(Pod, name, "default") for name in names]
    return reported(one, held, lambda: one.client.bind_many(held, ["n"] * len(held)))


def test_pods_that_others_bind_leave_the_queue_in_one_step(one: Scheduler) -> None:
    write(one, node("n"))
    for name in "pqr":
        write(one, pod(name))
    notices = bound_by_others(one, "p", "q", "r")
    seen()
    assert one.pods.on_run(notices) == 3
    assert seen() == [("AssignedPodAdd", "", name, False) for name in "pqr"]
    assert [one.cache.state.get_pod(each.new) for each in notices] == [each.new for each in notices]
    assert [one.queue.get(name) for name in "pqr"] == [None] * 3


def test_pods_that_others_bind_are_passed_one_by_one_where_pods_wait_for_events(one: Scheduler) -> None:
    write(one, node("n"))
    write(one, pod("large", requests={"cpu": "1k"}))
    (info,) = one.queue.pop()
    assert info is not None
    give_back(one, info, Rejectors(frozenset({"NodeResourcesFit"})))
    write(one, pod("p"))
    assert one.pods.on_run(bound_by_others(one, "p")) == 0


@pytest.mark.parametrize("one", ["1.34", "1.35"], indirect=True)
def test_a_binding_ends_a_nomination_in_1_34(one: Scheduler) -> None:
    write(one, node("n"))
    for name in "pqr":
        write(one, pod(name))
    write(one, with_status(pod("q"), nominated_node_name="n"))
    notices = bound_by_others(one, "p", "q", "r")
    seen()
    ends = one.handle.release.bindings_end_nominations
    assert one.pods.on_run(notices) == (1 if ends else 3)
    one.pods.on_update(notices[1].old, notices[1].new)
    ended = [("AssignedPodDelete", "q", "", True)] if ends else []
    assert seen()[-1 - len(ended) :] == [("AssignedPodAdd", "", "q", False), *ended]


@pytest.mark.parametrize("why", ["known", "unreadable", "finished", "changed"])
def test_pods_that_others_bind_are_added_up_to_one_that_is_not(one: Scheduler, why: str) -> None:
    write(one, node("n"))
    bad = {f"example.com/{at}": 1 for at in range(200)} if why == "unreadable" else None
    for each in (pod("p"), pod("q", requests=bad), pod("r")):
        write(one, each)
    if why == "finished":
        one.client.update(with_status(one.client.get(Pod, "q", "default"), phase="Failed"))
    notices = bound_by_others(one, "p", "q", "r")
    if why == "known":
        one.cache.add_pod(cast(Pod, notices[1].new))
    elif why == "changed":  # an event before the binding was lost
        notices[1] = Notice(notices[1].old, notices[1].new)
    assert one.pods.on_run(notices) == 1
    assert one.pods.on_run(notices[1:]) == 0
    assert one.pods.on_run(notices[2:]) == 1


def test_the_end_of_a_nomination_is_for_pods_of_no_higher_priority(one: Scheduler) -> None:
    waiting = [pod("low"), pod("equal", priority=1), pod("high", priority=9)]
    for each in waiting:
        write(one, each)
        (info,) = one.queue.pop()
        assert info is not None
        give_back(one, info, Rejectors(frozenset({"NodeResourcesFit"})))
    write(one, with_status(pod("p", priority=1), nominated_node_name="n"))
    write(one, with_status(pod("p", priority=1), nominated_node_name="m"))
    assert seen() == [("AssignedPodDelete", "p", "", True)]
    assert [info.pod.name for info in one.queue.pending_pods().backoff] == ["equal", "low"]
    one.client.delete(Pod, "p", "default")
    one.sync()
    assert seen() == [("AssignedPodDelete", "p", "", True)]


@pytest.mark.parametrize(("priority", "moved"), [(None, ["waiting"]), (1, [])])
def test_without_a_priority_it_is_0(one: Scheduler, priority: int | None, moved: list[str]) -> None:
    write(one, pod("waiting", priority=priority))
    (info,) = one.queue.pop()
    assert info is not None
    give_back(one, info, Rejectors(frozenset({"NodeResourcesFit"})))
    write(one, with_status(pod("p"), nominated_node_name="n"))
    write(one, with_status(pod("p"), nominated_node_name="m"))
    assert [info.pod.name for info in one.queue.pending_pods().backoff] == moved


@pytest.mark.parametrize(
    ("latest", "is_unbound"),
    [(pod("p"), True), (pod("p", on="n"), False), (with_meta(pod("p"), uid="another"), False), (None, False)],
)
def test_a_pod_without_a_node_is_found_as_it_is_now(
    one: Scheduler, latest: Pod | None, is_unbound: bool
) -> None:
    known = pod("p")
    if latest is not None:
        one.client.create(latest)
        one.sync()
    assert (one.pods.unbound(known) is not None) == is_unbound


def test_a_repair_adds_the_pods_that_the_queue_has_lost(one: Scheduler) -> None:
    for each in (pod("lost"), pod("there"), pod("bound", on="n"), pod("other", scheduler_name="other")):
        write(one, each)
    one.queue.delete([pod("lost")])
    before = one.queue.get("there")
    one.pods.repair()
    assert {info.pod.name for info in one.queue.pending_pods().active} == {"lost", "there"}
    assert one.queue.get("there") is before


@pytest.mark.parametrize("ends_at", ["", "n"])
def test_a_nomination_that_changes_while_its_pod_is_in_flight(one: Scheduler, ends_at: str) -> None:
    """handleSchedulingFailure goes by the pod that informers have."""
    write(one, with_status(pod("p"), nominated_node_name="" if ends_at else "n"))
    (info,) = one.queue.pop()
    assert info is not None
    write(one, with_status(pod("p"), nominated_node_name=ends_at))
    give_back(one, info, Rejectors(frozenset({"NodeResourcesFit"})))
    assert [each.name for each in one.handle.nominator.nominated_pods_for_node("n")] == ["p"] * bool(ends_at)


def test_a_deletion_of_unknown_state_is_one_of_an_assigned_pod_too(one: Scheduler) -> None:
    gone = pod("p")
    one.pods.on_add(gone, False)
    one.pods.on_delete(DeletedFinalStateUnknown("default/p", gone))
    assert seen() == [("AssignedPodDelete", "p", "", False)]
    assert one.queue.get("p") is None


@pytest.mark.parametrize("one", ["1.34", "1.35", "1.36"], indirect=True)
def test_an_assumed_pod_that_begins_to_terminate_is_forgotten(one: Scheduler) -> None:
    """Not in v1.34, where it is forgotten when it is gone."""
    write(one, node("n"))
    held = write(one, pod("p"))
    schedule_one(one.context, held)
    seen()
    going = replace(held.metadata, resource_version="x", deletion_timestamp="2026-01-01T00:00:00Z")
    one.pods.on_update(held, replace(held, metadata=going))
    stays = not one.handle.release.assumed_pods_end_with_termination
    assert seen() == ([] if stays else [("AssignedPodDelete", "p", "", False)])
    assert one.cache.state.has_pod(held) is stays


def test_what_is_shown_again_is_no_update(one: Scheduler) -> None:
    held = write(one, pod("p"))
    before = one.queue.get("p")
    one.pods.on_update(held, replace(held))
    assert before is not None
    assert before.pod is held


@pytest.mark.parametrize(
    ("kind", "namespace", "fields", "wanted"),
    [
        ("PersistentVolume", "", {}, ["Add", "Update"]),
        ("PersistentVolumeClaim", "default", {}, ["Add", "Update"]),
        ("StorageClass", "", {}, ["Add", "Update"]),
        ("CSINode", "", {}, ["Add", "Update"]),
        ("CSIStorageCapacity", "default", {}, ["Add", "Update"]),
        ("CSIDriver", "", {}, ["Update"]),
        ("VolumeAttachment", "", {}, ["Delete"]),
        ("Service", "default", {}, []),
    ],
)
def test_changes_of_other_kinds_are_events_with_their_group(
    one: Scheduler, kind: str, namespace: str, fields: Any, wanted: list[str]
) -> None:
    first = thing(kind, "x", namespace, **fields)
    write(one, first)
    write(one, replace(first, metadata=replace(first.metadata, labels={"a": "b"})))
    one.client.delete(type(first), "x", namespace)
    one.sync()
    prefix = "" if kind.startswith("Persistent") else "storage.k8s.io/"
    assert labels() == [f"{prefix}{kind}{action}" for action in wanted]


def test_pods_in_flight_see_runs_of_other_kinds() -> None:
    scheduler = Scheduler(clock=Clock(), config=None)
    scheduler.client.create(pod("flying"))
    scheduler.sync()
    assert scheduler.queue.pop()
    for name in "ab":
        scheduler.client.create(thing("StorageClass", name, ""))
    scheduler.client.update(replace(thing("StorageClass", "a", ""), parameters={"b": "c"}))
    scheduler.sync()
    found = [(event.label, new.name) for event, _, new in scheduler.queue.in_flight_events()]
    prefix = "storage.k8s.io/StorageClass"
    assert found == [(f"{prefix}Add", "a"), (f"{prefix}Add", "b"), (f"{prefix}Update", "a")]


# ---- what a failure does -----------------------------------------------------------------------------------


def flying(scheduler: Scheduler) -> Any:
    (info,) = scheduler.queue.in_flight()
    return info


def test_a_failed_pod_that_is_there_already_is_logged(
    one: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    info = flying(one)
    one.queue.add([info.pod])
    give_back(one, info, Rejectors())
    assert "Pod default/flying is already present in the active queue" in caplog.text


# ---- runs --------------------------------------------------------------------------------------------------


def test_settings_reach_the_queue() -> None:
    config = configuration(podInitialBackoffSeconds=3, podMaxBackoffSeconds=5)
    gates = {"SchedulerPopFromBackoffQ": False}
    scheduler = Scheduler(config=config, feature_gates=gates, clock=Clock(250))
    assert not scheduler.queue.settings.pop_from_backoff
    scheduler.client.create(pod("p"))
    for until in (3.25, 5.25):
        scheduler.sync()
        scheduler.run()
        info = scheduler.queue.get("p")
        assert info is not None
        assert scheduler.queue.backoff_until(info) == until
