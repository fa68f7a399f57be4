"""Equal preemptors of a batch are decided about as if each had been popped by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import NodeResourcesFit, of_class
from tests.doors.store import PodBinder
from tests.make import node, pod
from tests.objects.make import workload as replica_set
from tests.preemption.world import budget
from tests.scheduler.make import Clock, events
from tests.scheduler.placing.test_volume_engine import claimed
from tests.volume.make import csi_node, uses, volume

from moorage import Scheduler, default_profile
from moorage.engine.framework import Profile, QueueingHint
from moorage.engine.queue import QueuedPodInfo, SchedulingQueue
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Object,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from moorage.store import ObjectStore

HOST = "kubernetes.io/hostname"
OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="set", uid="set", controller=True)
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


def preemptors(number: int, cpu: int = 3, **fields: Any) -> list[Pod]:
    return [pod(f"high-{at}", requests={"cpu": cpu}, priority=9, **fields) for at in range(number)]


def victims(nodes: int, per_node: int = 4, **labels: str) -> list[Pod]:
    return [
        pod(f"low-{at}-{which}", on=f"n{at}", requests={"cpu": 1}, labels=labels)
        for at in range(nodes)
        for which in range(per_node)
    ]


def traces(one: Scheduler) -> dict[str, object]:
    """What can be observed of a scheduler, with the order of all writes."""
    queue = one.queue
    return {
        "writes": [
            (each.type, each.object.key, each.object.metadata.resource_version)
            for each in one.client.watch(Pod, resource_version="1").poll()
        ],
        "pods": {each.key: each for each in one.client.list(Pod)[0]},
        "waiting": {
            place: [(info.pod, info.order, info.attempts, info.until, info.timestamp) for info in infos]
            for place, infos in queue.pending_pods()._asdict().items()
        },
        "in flight": queue.in_flight(),
        "nominated": (one.handle.nominator.nodes, one.handle.nominator.by_node),
        "events": events(one),
        "rotation": one.placer.decider.start,
        "cached": [one.cache.node_info(f"n{at}").pods for at in range(4)],
    }


Make = Callable[[], Scheduler]


def one_by_one(run: Callable[[], Any]) -> Any:
    """The result of a call during which each pod is popped by itself."""
    pop = SchedulingQueue.pop
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SchedulingQueue, "pop", lambda queue, limit: pop(queue, min(limit, 1)))
        return run()


def seen(make: Make) -> list[Any]:
    one, out = make(), list[Any]()
    for _ in range(2):
        done = one.run()
        messages = {key: each.message for key, each in done.unschedulable.items()}
        nominated = {key: each.nominated_node for key, each in done.unschedulable.items()}
        evicted = list(done.evicted.items())
        out += [traces(one), messages, nominated, evicted, dict(done.placements)]
        if not out[5:]:
            one.client.create(node("late", cpu=64))
    return out


def check(make: Make) -> list[Any]:
    """Compare with pods that are popped one after the other."""
    together = seen(make)
    for mine, expected in zip(together, one_by_one(lambda: seen(make)), strict=True):
        assert mine == expected
    return together


def test_few_pods_are_popped_while_each_evicts_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after a preemptor return to the queue, so that popping all of them each time takes squares."""
    popped, pop = list[int](), SchedulingQueue.pop

    def noted(queue: SchedulingQueue, limit: int) -> list[QueuedPodInfo]:
        infos = pop(queue, limit)
        popped.append(len(infos))
        return infos

    monkeypatch.setattr(SchedulingQueue, "pop", noted)
    one = made(*victims(4), *preemptors(4), *(pod(f"plain-{at}") for at in range(8)))
    one.run()
    assert popped[:6] == [4, 1, 1, 1, 1, 2], "all, each preemptor alone, then twice as many each time"


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
    check(lambda: made(*victims(8), *several, count=8, config=config))


@pytest.mark.parametrize("answer", ["skip", "last", "queue"])
@pytest.mark.parametrize("is_marked", [True, False])
def test_hints_of_others_decide_when_preemptors_move(answer: str, is_marked: bool) -> None:
    """A hint gets the deleted pod with its condition, whether or not it answers for a class."""
    asked = list[Pod]()

    def hint(self: Any, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        asked.append(old)
        is_moved = answer == "queue" or (answer == "last" and old.name.endswith("-2"))
        return QueueingHint.QUEUE if is_moved else QueueingHint.QUEUE_SKIP

    class Fit(NodeResourcesFit):
        after_pod_change = of_class(hint) if is_marked else hint

    def make() -> Scheduler:
        plugins = [Fit() if one.name == Fit.name else one for one in default_profile().plugins]
        return made(*victims(8), *preemptors(8), count=8, profile=Profile(plugins))

    check(make)
    assert {old.status.conditions[-1].type for old in asked} == {"DisruptionTarget"}
    assert all(old.spec.node_name for old in asked)


def test_controllers_react_before_the_next_pod() -> None:
    spec = {"replicas": 16, "selector": {"matchLabels": {"app": "set"}}}
    owner = replica_set("ReplicaSet", "set", spec, metadata={"namespace": "default", "uid": "set"})
    owned = [
        replace(each, metadata=replace(each.metadata, owner_references=(OWNER,)))
        for each in victims(4, app="set")
    ]

    def make() -> Scheduler:
        return made(owner, *owned, *preemptors(4))

    check(make)


def test_writes_of_others_are_received_first() -> None:
    """One of the waiting pods is deleted while the first preempts."""

    def make() -> Scheduler:
        one = made(*victims(4), *preemptors(4))
        one.handle.on_eviction.append(
            lambda gone, on, by: one.client.delete(Pod, "high-2", "default") if by.name == "high-0" else None
        )
        return one

    assert "default/high-2" not in check(make)[0]["pods"]


def test_pods_with_volumes_are_read_anew() -> None:
    """The room for the volume of the last one follows from the volumes of the victims."""

    def sized(at: int) -> Any:
        one = volume(f"c{at}", ("d0", f"h{at}"))
        return replace(one, spec=replace(one.spec, capacity={"storage": "1Gi"}))

    def using(one: Pod, at: int) -> Pod:
        return replace(one, spec=replace(one.spec, volumes=(uses(claim=f"c{at}"),)))

    def make() -> Scheduler:
        there = [one for at in range(5) for one in claimed(f"c{at}", sized(at))]
        room = [csi_node(f"n{at}", d0=1) for at in range(4)]
        low = [using(each, int(each.name[-3])) if each.name[-1] == "0" else each for each in victims(4)]
        first, last = preemptors(2)
        return made(*there, *room, *low, first, using(last, 4))

    check(make)


def test_a_failed_pod_that_victims_make_room_for_is_tried_first() -> None:
    """Its backoff has ended when the victims of the first preemptor leave."""
    first = pod("first", requests={"cpu": 3}, priority=99, preemption_policy="Never")
    low = [pod(f"low-{at}", on=f"n{at}", requests={"cpu": 4}) for at in range(4)]

    def make() -> Scheduler:
        clock = Clock(1.6e9)
        one = made(*low, first, *preemptors(3, 1), clock=clock)
        one.handle.on_eviction.append(lambda *arguments: setattr(clock, "now", clock.now + 60))
        return one

    assert "default/first" in check(make)[4]


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
    check(lambda: made(*victims(4, app="low"), first, *preemptors(4)))
    waits = pod("b", priority=99, node_selector={"a": "b"}, preemption_policy="Never")
    check(lambda: made(*victims(4), waits, *preemptors(4)))
    low = pod("mid", requests={"cpu": 3}, priority=5)
    low = replace(low, status=replace(low.status, nominated_node_name="n0"))
    check(lambda: made(*victims(4), low, *preemptors(4)))


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

    check(make)


def test_victims_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads most of the pods that were bound in one write and leave."""
    one, read, method = made(store=True), list[str](), PodBinder.__call__
    store = cast(ObjectStore, one.client)
    store.create_many([replace(each, spec=replace(each.spec, node_name="")) for each in victims(4)])
    assert len(one.run().placements) == 16

    def make(self: PodBinder, pod: Pod, version: str, node: str) -> Pod:
        read.append(pod.name)
        return method(self, pod, version, node)

    monkeypatch.setattr(PodBinder, "__call__", make)
    store.create_many(preemptors(4))
    assert len(one.run().evicted) == 12
    low = [name for name in read if name.startswith("low")]
    assert len(low) == len(set(low)) <= 4, "one for each preemptor, about which hints are asked"
