"""A run of equal preemptors is like trying them one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.preemption.world import budget
from tests.scheduler.make import Clock
from tests.scheduler.test_follow_ups import OWNER, preemptors, traces, victims
from tests.sim.perf.make import BIG, POD, churn, nodes, placements, pods, run_of, workload

from moorage._core.services.in_flight import InFlight
from moorage.framework import QueueingHint
from moorage.framework.plugin.events import of_class
from moorage.objects import Cluster, LabelSelector, Object, Pod
from moorage.objects.model.meta import Condition
from moorage.objects.model.pod import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.queue import Place, QueuedPodInfo
from moorage.queue.places import Places, Strategy
from moorage.scheduler import Scheduler
from moorage.scheduler.event_handlers import PodHandler
from moorage.scheduler.placing import preemptor_run
from moorage.scheduler.runs import Run
from moorage.store import ObjectStore
from moorage.store.pod_binding import Binding

HOST = "kubernetes.io/hostname"
KINDS = "plain", "plain", "owned", "labelled"


def made(*objects: Object, count: int = 4, store: bool = False, **options: Any) -> Scheduler:
    ours = [each for each in objects if isinstance(each, Pod)]
    others = [each for each in objects if not isinstance(each, Pod)]
    machines = [node(f"n{at}", cpu=4, labels={HOST: f"n{at}"}) for at in range(count)]
    if not store:
        return Scheduler(Cluster(nodes=machines, pods=ours, others=others), **options)
    client = ObjectStore()
    client.create_many([*machines, *others, *ours])
    return Scheduler(client, **options)


@contextmanager
def noted() -> Iterator[list[int]]:
    """The number of pods of each run of preemptors."""
    found = list[int]()
    method = Run.preempt

    def preempt(self: Run, *arguments: Any) -> int:
        found.append(method(self, *arguments))
        return found[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "preempt", preempt)
        yield found


def seen(make: Callable[[], Scheduler], then: Callable[[Scheduler], None]) -> list[Any]:
    one, out = make(), list[Any]()
    for _ in range(2):
        done = one.run()
        messages = {key: each.message for key, each in done.unschedulable.items()}
        nominated = {key: each.nominated_node for key, each in done.unschedulable.items()}
        evicted = list(done.evicted.items())
        out += [traces(one), messages, nominated, evicted, dict(done.placements)]
        if not out[5:]:
            then(one)
    return out


def check(make: Callable[[], Scheduler], then: Callable[[Scheduler], None] = lambda one: None) -> int:
    """Compare with one by one; the number of pods that were tried in runs."""
    with noted() as found:
        together = seen(make, then)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "preempt", lambda *arguments: 0)
        apart = seen(make, then)
    for mine, expected in zip(together, apart, strict=True):
        assert mine == expected
    return sum(found)


def late(one: Scheduler) -> None:
    one.client.create(node("late", cpu=64))


def test_all_but_the_first_of_a_batch_are_tried_in_a_run() -> None:
    assert check(lambda: made(*victims(4), *preemptors(4)), late) == 3
    assert check(lambda: made(*victims(8), *preemptors(8), count=8, clock=Clock(1e9)), late) >= 4


def test_pods_of_another_kind_follow_a_run_to_the_end_of_its_segment() -> None:
    """Pods of another profile are another segment of the batch."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name} for name in ("default-scheduler", "other")],
    }
    several = [
        replace(one, spec=replace(one.spec, scheduler_name="default-scheduler" if at < 4 else "other"))
        for at, one in enumerate(preemptors(8))
    ]
    assert check(lambda: made(*victims(8), *several, count=8, config=config), late) == 6


def test_long_runs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptor_run, "MOST", 2)
    assert check(lambda: made(*victims(8), *preemptors(8), count=8), late) >= 4


def test_a_run_writes_no_more_than_the_history_of_the_store_keeps() -> None:
    def make() -> Scheduler:
        machines = [node(f"n{at}", cpu=4) for at in range(8)]
        one = Scheduler(client := ObjectStore(history=20))
        for each in (*machines, *victims(8)):
            client.create(each)
            one.sync()
        for each in preemptors(8):
            client.create(each)
            one.sync()
        return one

    with noted() as found:
        assert len(make().run().placements) == 8
    assert max(found) == 2
    assert check(make) == sum(found)


def test_a_run_ends_where_a_pod_fits() -> None:
    """The eviction for one pod leaves room for the next one."""
    low = [pod(f"low-{at}", on=f"n{at}", requests={"cpu": 4}) for at in range(4)]
    check(lambda: made(*low, *preemptors(8, cpu=2)), late)


def test_a_run_ends_where_eviction_helps_nowhere() -> None:
    assert check(lambda: made(*victims(8), *preemptors(12), count=8), late) > 0


def test_victims_of_controllers_end_it() -> None:
    low = [pod(f"low-{at}", on=f"n{at}", requests={"cpu": 4}) for at in range(6)]
    low[3] = special(low[3], "owned")
    assert check(lambda: made(*low, *preemptors(6), count=6), late) < 4


@pytest.mark.parametrize("kind", ["finalizer", "terminating"])
def test_pods_that_stay_after_their_deletion_are_no_plain_victims(kind: str) -> None:
    one = made(*victims(2), special(pod("odd", on="n2"), kind))
    run = Run(one)
    known = {each.name: each for at in range(3) for each in one.cache.node_info(f"n{at}").pods}
    odd = known.pop("odd")
    assert preemptor_run._may_go(run, list(known.values()))
    assert not preemptor_run._may_go(run, [*known.values(), odd])
    one.client.delete(Pod, "low-0-0", "default")
    one.sync()
    assert not preemptor_run._may_go(run, list(known.values()))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_cannot_be_written_together_is_written_one_by_one(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ObjectStore.preempt
    monkeypatch.setattr(
        ObjectStore, "preempt", lambda self, them, condition: write(self, them[:number], condition)
    )
    with handled() as found:
        assert check(lambda: made(*victims(8), *preemptors(8), count=8), late) >= 4
    assert (number == 3) >= bool(found)


@contextmanager
def handled() -> Iterator[list[int]]:
    """The number of notices of each run that was handled in one step."""
    found, method = list[int](), PodHandler._on_preemptions

    def on_preemptions(self: PodHandler, notices: Any) -> int:
        number = method(self, notices)
        found.extend([number] * bool(number))
        return number

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PodHandler, "_on_preemptions", on_preemptions)
        yield found


def test_the_events_of_a_run_are_handled_in_one_step() -> None:
    with handled() as found:
        check(lambda: made(*victims(8), *preemptors(8), count=8), late)
    assert found
    assert all(number % 7 == 0 for number in found)


@pytest.mark.parametrize("change", ["victim", "preemptor", "new", "gone"])
def test_writes_of_others_in_between(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right before the events of a run are received, and after its decisions."""

    def make() -> Scheduler:
        one = made(*victims(8), *preemptors(8), count=8)
        sync, count = one.sync, list[int]()

        def synced(**options: Any) -> Any:
            count.append(len(one.handle.nominator.by_node))
            if len(count) == 4:
                write(one)
            return sync(**options)

        one.sync = synced  # type: ignore[method-assign]
        return one

    def write(one: Scheduler) -> None:
        for each in one.client.list(Pod)[0]:
            if change == "victim" and each.name == "low-7-0":
                one.client.update(replace(each, metadata=replace(each.metadata, labels={"a": "b"})))
            if change == "preemptor" and each.name == "high-6":
                one.client.update(replace(each, metadata=replace(each.metadata, labels={"a": "b"})))
            if change == "gone" and each.name in ("low-7-1", "high-7"):
                one.client.delete(Pod, each.name, each.namespace)
        if change == "new":
            one.client.create(pod("other", requests={"cpu": 1}, priority=9))

    one = make()
    assert len(one.run().placements) >= 7
    assert not one.run().placements
    known = {each.key for at in range(8) for each in one.cache.node_info(f"n{at}").pods}
    assert known == {each.key for each in one.client.list(Pod)[0] if each.spec.node_name}


@pytest.mark.parametrize("answer", ["skip", "last", "queue"])
@pytest.mark.parametrize("is_marked", [True, False])
def test_hints_of_others_decide_when_preemptors_move(
    answer: str, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint that is not marked gets the deleted pod with its condition."""
    asked = list[Any]()

    def hint(self: Any, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        asked.append((old.name, old.spec.node_name, None if is_marked else old))
        is_moved = answer == "queue" or (answer == "last" and old.name.endswith("-2"))
        return QueueingHint.QUEUE if is_moved else QueueingHint.QUEUE_SKIP

    monkeypatch.setattr(NodeResourcesFit, "after_pod_change", of_class(hint) if is_marked else hint)

    def make() -> Scheduler:
        asked.append("begin")
        return made(*victims(8), *preemptors(8), count=8)

    check(make, late)
    begin = [at for at, each in enumerate(asked) if each == "begin"]
    assert asked[begin[0] : begin[1]] == asked[begin[1] :]


def special(one: Pod, kind: str) -> Pod:
    meta = one.metadata
    if kind == "finalizer":
        meta = replace(meta, finalizers=("example.com/keep",))
    if kind == "terminating":
        meta = replace(meta, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=("example.com/keep",))
    if kind == "owned":
        meta = replace(meta, owner_references=(OWNER,))
    if kind == "labelled":
        meta = replace(meta, labels={"app": "low"})
    return replace(one, metadata=meta)


def test_callbacks_and_handlers_of_others_are_called_one_by_one() -> None:
    def make() -> Scheduler:
        one = made(*victims(4), *preemptors(4))
        one.handle.on_eviction.append(lambda gone, on, by: None)
        return one

    def watched() -> Scheduler:
        one = made(*victims(4), *preemptors(4))
        one.informers.informer(Pod).add_event_handler(Silent())
        return one

    assert check(make, late) == check(watched, late) == 0


class Silent:
    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None: ...

    def on_update(self, old: Pod, new: Pod) -> None: ...

    def on_delete(self, obj: object) -> None: ...


def test_pods_that_events_may_move_are_moved_one_by_one() -> None:
    """A pod that waits for pods with a label to go; a nomination of lower priority that ends."""
    term = PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector({"app": "low"}))
    alone = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    first = pod("a", requests={"cpu": 1}, priority=99, affinity=alone, preemption_policy="Never")
    check(lambda: made(*victims(4, app="low"), first, *preemptors(4)), late)
    waits = pod("b", priority=99, node_selector={"a": "b"}, preemption_policy="Never")
    assert check(lambda: made(*victims(4), waits, *preemptors(4)), late) == 0
    low = pod("mid", requests={"cpu": 3}, priority=5)
    low = replace(low, status=replace(low.status, nominated_node_name="n0"))
    check(lambda: made(*victims(4), low, *preemptors(4)), late)


@pytest.mark.parametrize("is_together", [True, False])
def test_an_interrupt_leaves_no_victim_out_of_the_cache(
    is_together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, evict, calls = made(*victims(6), *preemptors(6), count=6), preemptor_run.evict_victims, list[str]()
    write = ObjectStore.preempt

    def interrupted(*arguments: Any) -> None:
        calls.append(arguments[1])
        if len(calls) == 3:
            raise KeyboardInterrupt
        evict(*arguments)

    def some(self: ObjectStore, preemptions: Sequence[Any], condition: Condition) -> Any:
        if is_together:
            write(self, preemptions[:2], condition)
            raise KeyboardInterrupt
        return 0, []

    monkeypatch.setattr(preemptor_run, "evict_victims", interrupted)
    monkeypatch.setattr(ObjectStore, "preempt", some)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    stored = {each.key for each in one.client.list(Pod)[0] if each.spec.node_name}
    one.sync()
    assert stored == {each.key for at in range(6) for each in one.cache.node_info(f"n{at}").pods}
    # Of the first, and of two of the run if it is known that these are written.
    assert len(one.handle.nominator.by_node) == (1 if is_together else 3)
    assert not one.pods.before_deletion
    assert not one.pods.written
    monkeypatch.undo()
    assert len(one.run().placements) == 6


def test_an_error_in_a_decision_leaves_no_victim_out_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    one, calls = made(*victims(6), *preemptors(6), count=6), list[str]()

    def interrupted(pod: Pod, nodes: int) -> int:
        calls.append(pod.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return 0

    one.handle.preemption_offset = interrupted
    with pytest.raises(KeyboardInterrupt):
        one.run()
    one.sync()
    stored = {each.key for each in one.client.list(Pod)[0] if each.spec.node_name}
    assert stored == {each.key for at in range(6) for each in one.cache.node_info(f"n{at}").pods}
    assert stored
    assert len(one.handle.nominator.by_node) < 4


ONES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([9, 9, 9, 5])), min_size=2, max_size=10)
LOW = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS), st.integers(-1, 1)), max_size=24)


@settings(deadline=None, max_examples=80)
@given(ONES, LOW, st.sampled_from(["none", "spread", "anti"]), st.booleans(), st.booleans(), st.booleans())
def test_any_batch_of_equal_preemptors_is_placed_as_one_by_one(
    high: list[tuple[int, int]],
    low: list[tuple[int, str, int]],
    terms: str,
    has_clock: bool,
    has_budget: bool,
    store: bool,
) -> None:
    fields: dict[str, Any] = {}
    if terms == "anti":
        term = PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector({"app": "low"}))
        fields["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    if terms == "spread":
        selector = LabelSelector({"app": "low"})
        spread = TopologySpreadConstraint(2, HOST, "DoNotSchedule", label_selector=selector)
        fields["topology_spread_constraints"] = (spread,)

    def make() -> Scheduler:
        ours = [
            pod(f"p-{at}", requests={"cpu": cpu}, priority=priority, **fields)
            for at, (cpu, priority) in enumerate(high)
        ]
        room = [4] * 6
        for number, (at, kind, priority) in enumerate(low):
            if room[at]:
                room[at] -= 1
                there = pod(f"low-{number}", on=f"n{at}", requests={"cpu": 1}, priority=priority)
                ours.append(special(there, kind))
        budgets = [budget(1, {"app": "low"})] if has_budget else []
        options = {"clock": Clock(1.0)} if has_clock else {}
        return made(*budgets, *ours, count=6, store=store, tie_break="random", seed=3, **options)

    check(make, late)


FIRST = BIG + "  priority: 10\n"


@pytest.mark.parametrize("rate", [7, 20, 500])
def test_workloads_in_virtual_time(tmp_path: Path, rate: int) -> None:
    """Each attempt takes its time, and pods that back off and other operations come in between."""
    low = pods(80)
    high = pods(18, podTemplatePath="first.yaml")
    ops = nodes(20), low, churn("big.yaml", mode="recreate", number=1, intervalMilliseconds=700), high
    low_pod, higher = POD.replace("100m", "900m"), FIRST.replace("10", "20")
    files = {"big.yaml": higher, "first.yaml": FIRST, "pod.yaml": low_pod}
    one = workload(tmp_path, *ops, files=files)

    def ran() -> tuple[Any, ...]:
        returned, requeue_all, back_off_one = list[tuple[Any, ...]](), Places.requeue_all, Places.back_off

        def note(infos: list[QueuedPodInfo], now: float, label: str) -> None:
            for info in infos:
                if info.place is not Place.UNSCHEDULABLE:
                    returned.append((info.pod.key, label, now, info.timestamp, info.until, info.order))

        def requeue(self: Places, infos: list[QueuedPodInfo], strategy: Strategy, label: str) -> bool:
            moved = requeue_all(self, infos, strategy, label)
            note(infos, self.now(), label)
            return moved

        def back_off(self: Places, one: InFlight, info: QueuedPodInfo, *arguments: Any) -> bool:
            if is_done := back_off_one(self, one, info, *arguments):
                note([info], *arguments[1:])
            return is_done

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Places, "requeue_all", requeue)
            patched.setattr(Places, "back_off", back_off)
            run = run_of(one, rate)
        return run.operations.counts(), run.clock.exact, placements(run), returned

    with noted() as found:
        together = ran()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "preempt", lambda *arguments: 0)
        assert together == ran()
    assert sum(found) > 0


def test_victims_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads most of the pods that were bound in one write and leave."""
    one, read, method = made(store=True), list[str](), Binding.__call__
    store = cast(ObjectStore, one.client)
    store.create_many([replace(each, spec=replace(each.spec, node_name="")) for each in victims(4)])
    assert len(one.run().placements) == 16

    def make(self: Binding, pod: Pod, version: str, node: str) -> Pod:
        read.append(pod.name)
        return method(self, pod, version, node)

    monkeypatch.setattr(Binding, "__call__", make)
    store.create_many(preemptors(4))
    with noted() as runs:
        result = one.run()
    assert (len(result.evicted), sum(runs)) == (12, 3)
    low = [name for name in read if name.startswith("low")]
    assert len(low) == len(set(low)) <= 4, "one for each preemptor, about which hints are asked"
