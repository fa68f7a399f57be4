"""Equal preemptors of a batch are decided about as if each had been popped by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.preemption.world import budget
from tests.scheduler.make import Clock
from tests.scheduler.test_follow_ups import OWNER, preemptors, traces, victims
from tests.sim.perf.make import BIG, POD, churn, nodes, placements, pods, run_of, workload

from moorage.framework import QueueingHint
from moorage.framework.plugin.events import of_class
from moorage.objects import (
    Affinity,
    Cluster,
    LabelSelector,
    Object,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.queue import Place, QueuedPodInfo
from moorage.queue.priority_queue import PriorityQueue, Strategy
from moorage.scheduler import Scheduler
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
def noted() -> Iterator[list[bool]]:
    """After each eviction, whether the next pod of the batch was tried without another pop."""
    found = list[bool]()

    def noting(method: Any) -> Callable[..., bool]:
        def call(self: Run, *arguments: Any) -> bool:
            found.append(method(self, *arguments))
            return found[-1]

        return call

    with pytest.MonkeyPatch.context() as patched:
        for name in ("_follow_up", "may_go_on"):
            patched.setattr(Run, name, noting(getattr(Run, name)))
        yield found


@contextmanager
def one_by_one() -> Iterator[None]:
    """After each eviction, the other pods of the batch return to the queue."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_follow_up", "may_go_on"):
            patched.setattr(Run, name, lambda *arguments: False)
        yield


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
    """Compare with pods that are popped one after the other; the number of those that are not."""
    with noted() as found:
        together = seen(make, then)
    with one_by_one():
        apart = seen(make, then)
    for mine, expected in zip(together, apart, strict=True):
        assert mine == expected
    return sum(found)


def late(one: Scheduler) -> None:
    one.client.create(node("late", cpu=64))


def test_all_but_the_first_of_a_batch_are_not_popped_again() -> None:
    assert check(lambda: made(*victims(4), *preemptors(4)), late) == 4
    assert check(lambda: made(*victims(8), *preemptors(8), count=8, clock=Clock(1e9)), late) >= 4


def test_pods_of_another_kind_follow() -> None:
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
    assert check(lambda: made(*victims(8), *several, count=8, config=config), late) == 9


def test_a_pod_that_fits_is_placed() -> None:
    """The eviction for one pod leaves room for the next one."""
    low = [pod(f"low-{at}", on=f"n{at}", requests={"cpu": 4}) for at in range(4)]
    check(lambda: made(*low, *preemptors(8, cpu=2)), late)


def test_a_pod_that_eviction_does_not_help_fails() -> None:
    assert check(lambda: made(*victims(8), *preemptors(12), count=8), late) > 0


@pytest.mark.parametrize("answer", ["skip", "last", "queue"])
@pytest.mark.parametrize("is_marked", [True, False])
def test_hints_of_others_decide_when_preemptors_move(
    answer: str, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint gets the deleted pod with its condition, whether or not it answers for a class."""
    asked = list[Pod]()

    def hint(self: Any, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        asked.append(old)
        is_moved = answer == "queue" or (answer == "last" and old.name.endswith("-2"))
        return QueueingHint.QUEUE if is_moved else QueueingHint.QUEUE_SKIP

    monkeypatch.setattr(NodeResourcesFit, "after_pod_change", of_class(hint) if is_marked else hint)

    assert check(lambda: made(*victims(8), *preemptors(8), count=8), late) >= 8
    assert {old.status.conditions[-1].type for old in asked} == {"DisruptionTarget"}
    assert all(old.spec.node_name for old in asked)


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


def test_pods_that_events_may_move_are_moved_one_by_one() -> None:
    """A pod that waits for pods with a label to go; a nomination of lower priority that ends."""
    term = PodAffinityTerm(topology_key=HOST, label_selector=LabelSelector({"app": "low"}))
    alone = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    first = pod("a", requests={"cpu": 1}, priority=99, affinity=alone, preemption_policy="Never")
    check(lambda: made(*victims(4, app="low"), first, *preemptors(4)), late)
    waits = pod("b", priority=99, node_selector={"a": "b"}, preemption_policy="Never")
    check(lambda: made(*victims(4), waits, *preemptors(4)), late)
    low = pod("mid", requests={"cpu": 3}, priority=5)
    low = replace(low, status=replace(low.status, nominated_node_name="n0"))
    check(lambda: made(*victims(4), low, *preemptors(4)), late)


def test_an_error_in_a_decision_leaves_no_victim_out_of_the_cache() -> None:
    one, calls = made(*victims(6), *preemptors(6), count=6), list[str]()

    def interrupted(pod: Pod, nodes: int) -> int:
        calls.append(pod.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return 0

    one.context.engine_of(preemptors(1)[0]).handle.preemption_offset = interrupted
    with pytest.raises(KeyboardInterrupt):
        one.run()
    one.sync()
    stored = {each.key for each in one.client.list(Pod)[0] if each.spec.node_name}
    assert stored == {each.key for at in range(6) for each in one.cache.node_info(f"n{at}").pods}
    assert stored
    assert len(one.handle.nominator.by_node) < 4


ONES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([9, 9, 9, 5])), min_size=2, max_size=10)
LOW = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS), st.integers(-1, 1)), max_size=24)


FAILS_TWICE = [(cpu, 9) for cpu in (1, 2, 4, 4, 4, 3, 4, 1, 1, 1)], [(0, "plain", 0), (0, "plain", 0)]


@settings(deadline=None, max_examples=80)
@example(*FAILS_TWICE, "spread", False, False, False)
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
        returned, requeue_all = list[tuple[Any, ...]](), PriorityQueue.requeue_all

        def requeue(self: PriorityQueue, infos: list[QueuedPodInfo], strategy: Strategy, label: str) -> bool:
            moved = requeue_all(self, infos, strategy, label)
            for info in infos:
                if info.place is not Place.UNSCHEDULABLE:
                    returned.append((info.pod.key, label, info.timestamp, info.until, info.order))
            return moved

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(PriorityQueue, "requeue_all", requeue)
            run = run_of(one, rate)
        orders = sorted(order for *_, order in returned)
        ranks = [(*each, orders.index(order)) for *each, order in returned]
        return run.operations.counts(), run.clock.exact, placements(run), ranks

    with noted() as found:
        together = ran()
    with one_by_one():
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
    assert (len(result.evicted), sum(runs)) == (12, 4)
    low = [name for name in read if name.startswith("low")]
    assert len(low) == len(set(low)) <= 4, "one for each preemptor, about which hints are asked"
