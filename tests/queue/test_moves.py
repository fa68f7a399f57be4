"""The scheduling queue: what events, updates and gates do (kube-scheduler v1.36, backend/queue)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.engine.framework import (
    ActionType,
    ClusterEvent,
    NominatingInfo,
    PodNominator,
    PreEnqueuePlugin,
    QueueingHint,
    Status,
)
from moorage.engine.queue import QueuedPodInfo
from moorage.kube import Pod, PodSchedulingGroup
from moorage.store import DeletedFinalStateUnknown, Indexer, ObjectStore, WatchEvent
from tests.doors.engine import Notice, Strategy, gates_by_group, gates_only_with, on
from tests.doors.store import with_version
from tests.framework.make import make
from tests.make import in_tree, node, pod
from tests.queue.make import (
    ADD,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    GATED,
    NODE_ADD,
    NODE_DELETE,
    UNRESOLVABLE,
    WANTS_NODES,
    WANTS_NOTHING,
    Clock,
    fail,
    gating,
    labelled,
    make_queue,
    move,
    names,
    places,
    pop,
    queued,
    reject,
    rejecting,
    saying,
)

# ---- events ------------------------------------------------------------------------------------------------


def test_an_exception_of_a_hint_counts_as_queue(caplog: pytest.LogCaptureFixture) -> None:
    def hint(one: Pod, old: Any, new: Any) -> QueueingHint:
        raise KeyError("x")

    queue = make_queue(rejecting("Bad", on("Node", ADD, hint)))
    queue.add([queued("a")])
    fail(queue, "Bad")
    move(queue, NODE_ADD)
    assert places(queue) == {"backoff": ["a"]}
    assert "queueing hint of Bad: KeyError: 'x'" in caplog.text


def test_who_waits_for_new_nodes_hears_of_taints() -> None:
    taint = ActionType.UPDATE_NODE_TAINT
    wants_taints = rejecting("Taints", on("Node", ADD), on("Node", taint, saying(False)))
    queue = make_queue(WANTS_NODES, wants_taints)
    for name, rejector in (("a", "Nodes"), ("b", "Taints")):
        queue.add([queued(name)])
        fail(queue, rejector)
    move(queue, on("Node", taint).event, node("n"), node("n"))
    assert places(queue) == {"backoff": ["a"], "unschedulable": ["b"]}


def test_a_plugin_that_registers_nothing_by_itself_hears_of_nearly_all() -> None:
    queue = make_queue(make(type(WANTS_NODES).__mro__[1], "Plain", filter_all=None))
    queue.add([queued("a")])
    fail(queue, "Plain")
    move(queue, on("storage.k8s.io/VolumeAttachment", ActionType.DELETE).event)
    assert places(queue) == {"unschedulable": ["a"]}
    move(queue, NODE_DELETE, node("n"))
    assert places(queue) == {"backoff": ["a"]}


# ---- in flight ---------------------------------------------------------------------------------------------


def test_activating_a_pod_in_flight_is_for_that_pod_alone() -> None:
    queue = make_queue(WANTS_NOTHING)
    for name in "ab":
        queue.add([queued(name)])
    first, second = pop(queue), pop(queue)
    queue.activate([first.pod, queued("unknown")])
    assert queue.in_flight_events() == [(FORCE_ACTIVATE, None, first.pod)]
    reject(queue, second, "Nothing")
    reject(queue, first, "Nothing")
    assert places(queue) == {"backoff": ["a"], "unschedulable": ["b"]}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("unschedulable", "is already present in unschedulable queue"),
        ("active", "is already present in the active queue"),
        ("backoff", "is already present in the backoff queue"),
    ],
)
def test_a_pod_that_comes_back_twice(where: str, text: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = make_queue(WANTS_NODES)
    queue.add([queued("a")])
    again = pop(queue)
    queue.add([queued("a")])
    info = queue.get("a")
    if where != "active":
        info.note_failure((frozenset({"Nodes"}), frozenset[str]()), queue.now(), False)
        strategy = Strategy.SKIP if where == "unschedulable" else Strategy.AFTER_BACKOFF
        queue.requeue([(strategy, info)], "")
    reject(queue, again, "Nodes")
    assert caplog.messages == [f"Pod default/a {text}"]
    assert places(queue) == {where: ["a"]}


def test_a_pod_that_was_not_popped_does_not_come_back() -> None:
    queue = make_queue(WANTS_NODES)
    reject(queue, QueuedPodInfo(queued("a")), "Nodes")
    assert places(queue) == {}


# ---- gates -------------------------------------------------------------------------------------------------


def test_a_gated_pod_waits_for_its_gate() -> None:
    queue = make_queue(in_tree("SchedulingGates")(), WANTS_NODES)
    gated = queued("a", scheduling_gates=GATED)
    queue.add([gated])
    info = queue.get("a")
    assert places(queue) == {"gated": ["a"]}
    assert (info.gating_plugin, info.unschedulable_plugins) == ("SchedulingGates", {"SchedulingGates"})
    assert info.initial_attempt_timestamp is None
    queue.activate([gated])
    move(queue, NODE_ADD)
    queue.update(gated, labelled(gated, a="b"))
    assert places(queue) == {"gated": ["a"]}
    queue.update(queue.get("a").pod, queued("a"))
    assert places(queue) == {"active": ["a"]}
    assert (info.gating_plugin, info.unschedulable_plugins) == ("", {"SchedulingGates"})
    assert info.initial_attempt_timestamp == 0.0


def test_the_gating_plugin_decides_what_is_heard_and_all_rejectors_what_it_means() -> None:
    gate = {"closed": True}
    closed = gating("Gate", lambda one: gate["closed"], on("Node", ADD, saying(False)))
    queue = make_queue(closed, rejecting("Pods", on("Pod", ADD)), WANTS_NODES)
    gate["closed"] = False
    for name, rejector in (("a", "Pods"), ("b", "Nodes")):
        queue.add([queued(name)])
        fail(queue, rejector)
    gate["closed"] = True
    queue.activate([queued("a"), queued("b")])
    assert places(queue) == {"gated": ["a", "b"]}
    gate["closed"] = False
    move(queue, ASSIGNED_POD_ADD, None, pod("q", on="n"))
    assert places(queue) == {"gated": ["a", "b"]}
    move(queue, NODE_ADD, None, node("n"))
    assert places(queue) == {"backoff": ["b"], "gated": ["a"]}


@pytest.mark.parametrize("gate_is_on", [True, False])
def test_when_pre_enqueue_runs(gate_is_on: bool) -> None:
    """With early pops before backing off and not after it; without them, the other way round."""
    asked: list[str] = []
    plugin = gating("Gate", lambda one: bool(asked.append(one.name)))
    queue = make_queue(plugin, WANTS_NODES, pop_from_backoff=gate_is_on, clock=(clock := Clock()))
    queue.add([queued("a")])
    fail(queue, "Nodes")
    assert asked == ["a"]
    move(queue, NODE_ADD)
    assert len(asked) == (2 if gate_is_on else 1)
    clock.advance(9)
    queue.flush_backoff_completed()
    assert len(asked) == 2
    assert places(queue) == {"active": ["a"]}


@pytest.mark.parametrize("has_backed_off", [True, False])
def test_an_event_moves_a_pod_to_a_gate_that_has_closed(has_backed_off: bool) -> None:
    gate = {"closed": False}
    plugin = gating("Gate", lambda one: gate["closed"])
    queue = make_queue(plugin, WANTS_NODES, clock=(clock := Clock()))
    queue.add([queued("a")])
    fail(queue, "Nodes")
    gate["closed"] = True
    if has_backed_off:
        clock.advance(9)
    move(queue, NODE_ADD)
    assert places(queue) == {"gated": ["a"]}
    assert queue.get("a").gating_plugin == "Gate"


def test_the_plugin_that_gated_is_asked_first() -> None:
    closed = {"One": False, "Two": True}
    asked: list[str] = []

    def gate(name: str) -> Any:
        return gating(name, lambda one: asked.append(name) or closed[name])

    queue = make_queue(gate("One"), gate("Two"))
    queue.add([queued("a")])
    queue.activate([queued("a")])
    assert asked == ["One", "Two", "Two"]
    closed["Two"] = False
    closed["One"] = True
    queue.activate([queued("a")])
    assert queue.get("a").gating_plugin == "One"
    assert queue.get("a").unschedulable_plugins == {"One", "Two"}


def test_an_error_of_pre_enqueue_gates(caplog: pytest.LogCaptureFixture) -> None:
    def fails(one: Pod) -> bool:
        raise ValueError("no")

    queue = make_queue(gating("Gate", fails))
    queue.add([queued("a")])
    assert places(queue) == {"gated": ["a"]}
    assert [record.message for record in caplog.records] == [
        'pod default/a: plugin "Gate" raised ValueError: no'
    ]


# ---- pods change and go ------------------------------------------------------------------------------------


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    queue = make_queue()
    queue.update(queued("a"), labelled(queued("a"), x="y"))
    assert places(queue) == {"active": ["a"]}


def test_a_pod_that_is_added_twice_is_there_once() -> None:
    queue = make_queue(WANTS_NODES)
    queue.add([queued("a")])
    queue.add([labelled(queued("a"), x="y")])
    assert places(queue) == {"active": ["a"]}
    assert queue.get("a").pod.metadata.labels == {"x": "y"}


def test_nominations_follow_the_updates_of_pods_in_the_queue() -> None:
    nominator = PodNominator()
    queue = make_queue(in_tree("SchedulingGates")(), WANTS_NODES, nominator=nominator)
    wishes = replace(queued("a"), status=replace(queued("a").status, nominated_node_name="n"))
    queue.add([wishes])
    assert nominator.nominated_node(wishes) == "n"
    queue.update(wishes, queued("a"))
    assert nominator.nominated_node(wishes) is None
    nominator.add_nominated_pod(queued("a"), NominatingInfo("m"))
    queue.update(queued("a"), labelled(queued("a"), x="y"))
    assert nominator.nominated_node(wishes) == "m"
    queue.delete([wishes])
    assert nominator.nominated_node(wishes) is None
    queue.add([replace(wishes, spec=replace(wishes.spec, scheduling_gates=GATED))])
    assert nominator.nominated_node(wishes) is None


def test_nominations_that_the_queue_knows_are_followed_together() -> None:
    """The next one is that of a pod that is unschedulable."""
    store, indexer, notices = ObjectStore(), Indexer[Pod]({}), list[Notice[Pod]]()
    watch, nominator = store.watch(Pod), PodNominator()
    store.create_many([queued(name) for name in "abcd"])
    indexer.apply(watch.poll(), DeletedFinalStateUnknown, [])
    queue = make_queue(WANTS_NODES, nominator=nominator)
    for at, one in enumerate(store.list(Pod)[0]):
        queue.add([one])
        fail(queue, "Nodes")
        nominator.add_nominated_pod(one, NominatingInfo(f"n{at}"))
        if at == 1:
            move(queue, NODE_ADD)
        store.patch_pod_status(one, f"n{at}", ())
    indexer.apply(watch.poll(), DeletedFinalStateUnknown, notices)
    assert queue.follow_nominations(notices) == 2
    infos = [queue.get(notice.new.metadata.uid) for notice in notices if notice.new is not None]
    assert [info.pod is notice.new for info, notice in zip(infos, notices, strict=True)] == [True] * 2 + [
        False
    ] * 2
    first = infos[0].pod
    assert nominator.by_node["n0"] == {first.metadata.uid: first}
    assert first.status.nominated_node_name == "n0"
    assert queue.follow_nominations(notices) == 0


def test_a_nomination_before_that_of_another_pod_is_not_followed() -> None:
    """It moves to the end of the pods of its node."""
    store, indexer, notices = ObjectStore(), Indexer[Pod]({}), list[Notice[Pod]]()
    watch, nominator = store.watch(Pod), PodNominator()
    one = store.create(queued("a"))
    indexer.apply(watch.poll(), DeletedFinalStateUnknown, [])
    queue = make_queue(WANTS_NODES, nominator=nominator)
    queue.add([one])
    for each in (one, queued("b")):
        nominator.add_nominated_pod(each, NominatingInfo("n"))
    store.patch_pod_status(one, "n", ())
    indexer.apply(watch.poll(), DeletedFinalStateUnknown, notices)
    assert queue.follow_nominations(notices) == 0


def test_pre_enqueue_is_asked_about_pods_that_it_may_reject() -> None:
    """If a plugin of the library says what it reads; otherwise about each pod, or once for a group."""
    asked = list[str]()

    class Reads(PreEnqueuePlugin):
        name, in_core, held = "Reads", True, set[str]()

        @gates_only_with("scheduling_gates", held=["held"])
        def pre_enqueue(self, pod: Pod) -> Status | None:
            asked.append(f"Reads {pod.name}")
            return Status(UNRESOLVABLE, ("no",)) if pod.spec.scheduling_gates else None

    class OfGroup(PreEnqueuePlugin):
        name, in_core, closed = "OfGroup", True, False

        @gates_by_group
        def pre_enqueue(self, pod: Pod) -> Status | None:
            if pod.spec.scheduling_group is None:
                return None
            asked.append(f"OfGroup {pod.name}")
            return Status(UNRESOLVABLE, ("no",)) if self.closed else None

    reads, of_group = Reads(), OfGroup()
    queue = make_queue(reads, of_group, groups_pods=True)

    def asked_for(*names: str, **spec: Any) -> list[str]:
        asked.clear()
        queue.add([queued(name, **spec) for name in names])
        return asked.copy()

    assert asked_for("a", "b") == []
    assert asked_for("c", scheduling_gates=GATED) == ["Reads c"]
    assert places(queue) == {"active": ["a", "b"], "gated": ["c"]}
    group = PodSchedulingGroup("g")
    assert asked_for(*"defgh", scheduling_group=group) == ["OfGroup d", "OfGroup e"]
    reads.held.add("any")
    assert asked_for("i") == ["Reads i"]
    of_group.closed = True
    reads.held.clear()
    asked_for("j", scheduling_group=PodSchedulingGroup("h"))
    assert names(queue.pending_pods().gated) == ["c", "j"]


def test_a_plugin_that_overrides_pre_enqueue_is_called() -> None:
    """Also if it derives from one that reads only what a pod may lack."""

    class Mine(in_tree("SchedulingGates")):  # type: ignore[misc]
        def pre_enqueue(self, pod: Pod) -> Status | None:
            return Status(UNRESOLVABLE, ("mine",)) if pod.name == "b" else super().pre_enqueue(pod)

    queue = make_queue(Mine())
    queue.add([QueuedPodInfo(queued(name)) for name in "abc"])
    assert places(queue) == {"active": ["a", "c"], "gated": ["b"]}
    queue.activate([queued("b")])
    assert places(queue) == {"active": ["a", "c"], "gated": ["b"]}


def test_evictions_in_flight_are_remembered() -> None:
    """No object is made before a pod comes back."""
    made = list[str]()

    def make(old: Pod, version: str, name: Any) -> Pod:
        made.append(old.name)
        return replace(old, metadata=replace(old.metadata, resource_version=version))

    def evict() -> None:
        for name in "pq":
            old = with_version(pod(name, on="n"), "6")
            change = WatchEvent.deferred("MODIFIED", old, 7, make, name)
            queue.move_all(ClusterEvent("AssignedPod", ActionType.UPDATE), [Notice(old, change)])
            queue.move_all(ASSIGNED_POD_DELETE, [Notice(change, None)])

    heard = list[tuple[str, str, str | None]]()

    def hint(one: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        heard.append((old.name, old.metadata.resource_version, new and new.metadata.resource_version))
        return QueueingHint.QUEUE_SKIP

    kinds = on("AssignedPod", ActionType.UPDATE, hint), on("AssignedPod", ActionType.DELETE, hint)
    queue = make_queue(rejecting("Pods", *kinds), WANTS_NODES)
    evict()
    assert queue.in_flight_events() == []
    queue.add([queued("a")])
    info = pop(queue)
    evict()
    assert made == []
    reject(queue, info, "Pods")
    assert heard == [("p", "6", "7"), ("p", "7", None), ("q", "6", "7"), ("q", "7", None)]
    assert (made, places(queue)) == (["p", "q"], {"unschedulable": ["a"]})
