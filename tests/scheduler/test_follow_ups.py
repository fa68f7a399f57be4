"""After an eviction, the next pods of a batch are decided about as if they had been popped again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.objects.make import workload
from tests.preemption.world import budget
from tests.scheduler.make import Clock, events
from tests.scheduler.placing.test_volume_engine import claimed
from tests.volume.make import csi_node, uses, volume

from moorage.objects import (
    Affinity,
    Cluster,
    LabelSelector,
    Object,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
)
from moorage.scheduler import Scheduler
from moorage.scheduler.runs import Run

OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="set", uid="set", controller=True)


def preemptors(number: int, cpu: int = 3, **fields: Any) -> list[Pod]:
    return [pod(f"high-{at}", requests={"cpu": cpu}, priority=9, **fields) for at in range(number)]


def victims(nodes: int, per_node: int = 4, **labels: str) -> list[Pod]:
    return [
        pod(f"low-{at}-{which}", on=f"n{at}", requests={"cpu": 1}, labels=labels)
        for at in range(nodes)
        for which in range(per_node)
    ]


def made_of(*objects: Object, nodes: int = 4, **options: Any) -> Scheduler:
    pods = [each for each in objects if isinstance(each, Pod)]
    others = [each for each in objects if not isinstance(each, Pod)]
    machines = [node(f"n{at}", cpu=4, labels={"kubernetes.io/hostname": f"n{at}"}) for at in range(nodes)]
    return Scheduler(Cluster(nodes=machines, pods=pods, others=others), **options)


def traces(one: Scheduler) -> dict[str, object]:
    """What can be observed of a scheduler, with the order of all writes."""
    queue = one.queue
    return {
        "writes": [(e.type, e.key, e.resource_version) for e in one.client._tables[Pod]._events],
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


def outcome(make: Callable[[], Scheduler], monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any, Any]:
    """How many pods a run has tried on with, what it has left, and what one has left that receives the events
    of each eviction after the other pods have returned to the queue."""
    found = list[bool]()

    def noted(method: Any) -> Callable[..., bool]:
        def call(self: Run, *arguments: Any) -> bool:
            found.append(method(self, *arguments))
            return found[-1]

        return call

    def run_of(follow_up: Any, may_go_on: Any) -> tuple[Any, ...]:
        with monkeypatch.context() as patched:
            patched.setattr(Run, "_follow_up", follow_up)
            patched.setattr(Run, "may_go_on", may_go_on)
            one = make()
            first = one.run()
            before = traces(one)
            one.client.create(node("late", cpu=64))
            second = one.run()
            messages = [
                {key: each.message for key, each in run.unschedulable.items()} for run in (first, second)
            ]
            return before, traces(one), messages, [run.placements | run.evicted for run in (first, second)]

    def no(*arguments: Any) -> bool:
        return False

    together, apart = run_of(noted(Run._follow_up), noted(Run.may_go_on)), run_of(no, no)
    return sum(found), together, apart


def check(make: Callable[[], Scheduler], monkeypatch: pytest.MonkeyPatch) -> int:
    followed, together, apart = outcome(make, monkeypatch)
    for mine, expected in zip(together, apart, strict=True):
        assert mine == expected
    return followed


def test_equal_preemptors_are_tried_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(lambda: made_of(*victims(4), *preemptors(4)), monkeypatch) == 4


def test_a_pod_that_an_event_puts_in_front_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has waited for the end of the victims beside which it does not go."""
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname", label_selector=LabelSelector({"app": "low"})
    )
    alone = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    first = pod("first", requests={"cpu": 1}, priority=9, affinity=alone, preemption_policy="Never")
    old = replace(first, metadata=replace(first.metadata, creation_timestamp="2020-01-01T00:00:00Z"))
    check(lambda: made_of(*victims(4, app="low"), old, *preemptors(3, 4), clock=Clock(1.6e9)), monkeypatch)


def test_a_failed_pod_that_victims_make_room_for_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backoff has ended when the victims of the first preemptor leave."""
    first = pod("first", requests={"cpu": 3}, priority=99, preemption_policy="Never")
    low = [pod(f"low-{at}", on=f"n{at}", requests={"cpu": 4}) for at in range(4)]

    def make() -> Scheduler:
        clock = Clock(1.6e9)
        one = made_of(*low, first, *preemptors(3, 1), clock=clock)
        one.handle.on_eviction.append(lambda *arguments: setattr(clock, "now", clock.now + 60))
        return one

    _, together, apart = outcome(make, monkeypatch)
    assert "default/first" in together[3][0]
    assert together == apart


def test_controllers_react_before_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"replicas": 16, "selector": {"matchLabels": {"app": "set"}}}
    owner = workload("ReplicaSet", "set", spec, metadata={"namespace": "default", "uid": "set"})
    owned = [
        replace(each, metadata=replace(each.metadata, owner_references=(OWNER,)))
        for each in victims(4, app="set")
    ]

    def make() -> Scheduler:
        return made_of(owner, *owned, *preemptors(4))

    assert check(make, monkeypatch) == 0


def test_budgets_are_written_before_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        check(lambda: made_of(budget(3, {"app": "low"}), *victims(4, app="low"), *preemptors(4)), monkeypatch)
        == 0
    )


def test_writes_of_others_are_received_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the waiting pods is deleted while the first preempts."""

    def make() -> Scheduler:
        one = made_of(*victims(4), *preemptors(4))
        one.handle.on_eviction.append(
            lambda gone, on, by: one.client.delete(Pod, "high-2", "default") if by.name == "high-0" else None
        )
        return one

    followed, together, apart = outcome(make, monkeypatch)
    assert "default/high-2" not in together[0]["pods"]
    assert together == apart
    assert followed < 3


def test_pods_with_volumes_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
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
        return made_of(*there, *room, *low, first, using(last, 4))

    assert check(make, monkeypatch) == 0


CPUS = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(CPUS, CPUS, st.lists(st.integers(0, 3), max_size=12), st.booleans())
def test_a_batch_with_follow_ups_decides_as_single_cycles_do(
    high: list[int], middle: list[int], low: list[int], has_clock: bool
) -> None:
    def make() -> Scheduler:
        pods = [pod(f"high-{at}", requests={"cpu": cpu}, priority=9) for at, cpu in enumerate(high)]
        pods += [pod(f"mid-{at}", requests={"cpu": cpu}, priority=5) for at, cpu in enumerate(middle)]
        room = [4] * 4
        for number, at in enumerate(low):
            if room[at]:
                room[at] -= 1
                pods.append(pod(f"low-{number}", on=f"n{at}", requests={"cpu": 1}))
        return made_of(*pods, clock=Clock(1.0) if has_clock else None)

    with pytest.MonkeyPatch.context() as monkeypatch:
        check(make, monkeypatch)
