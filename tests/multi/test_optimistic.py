"""Several schedulers on one cluster: what they come to, and that it is the same every time."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from tests.core.make import ZONE, node, pod
from tests.multi.kit import asking
from tests.scheduler.groups.gang_kit import GATES, gang, members
from tests.volume.make import claim, storage_class, uses

from moorage import Scheduler
from moorage.errors import InputError
from moorage.multi.optimistic import Optimistic, simulate_optimistically
from moorage.objects import Cluster, LabelSelector, PersistentVolumeClaim, TopologySpreadConstraint
from moorage.sim.synthetic import synthetic


def check(out: Optimistic, cluster: Cluster) -> None:
    """The sums are right, and no node has more than it can take."""
    placed = out.result.placements
    waiting = [one for one in cluster.pods if not one.spec.node_name]
    assert len(placed) + len(out.result.unschedulable) + len(out.result.skipped) == len(waiting)
    assert sum(one.pods for one in out.schedulers) == len(waiting) - len(out.result.skipped)
    assert out.bound + out.alone - len(out.result.evicted) <= len(placed)
    assert sum(one.placements - one.retries for one in out.schedulers) == out.bound
    table, rows = out.scheduler.table, out.scheduler.context.view_rows()
    for resource in ("cpu", "memory", "pods"):
        assert (table.requested[resource][rows] <= table.allocatable[resource][rows]).all()


@pytest.mark.parametrize("partition", ["none", "zone", "hash"])
@pytest.mark.parametrize("schedulers", [1, 3])
def test_pods_are_placed_whatever_the_conflicts(schedulers: int, partition: str) -> None:
    cluster = synthetic(nodes=30, zones=3, pods=700)
    out = simulate_optimistically(cluster, schedulers, partition=partition, chunk=16)
    check(out, cluster)
    again = simulate_optimistically(cluster, schedulers, partition=partition, chunk=16)
    assert again.result.placements == out.result.placements
    assert [one.conflicts for one in again.schedulers] == [one.conflicts for one in out.schedulers]
    assert any(one.conflicts for one in out.schedulers) == (schedulers > 1)
    assert out.result.unschedulable


def test_one_scheduler_decides_as_a_scheduler_does() -> None:
    cluster = synthetic(nodes=30, pods=700)
    out = simulate_optimistically(cluster, 1, chunk=32)
    alone = Scheduler(cluster).run()
    assert out.result.placements == alone.placements
    assert out.result.unschedulable.keys() == alone.unschedulable.keys()
    assert out.alone == out.schedulers[0].retries == 0


def test_executors_that_cannot_be_used_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="executor must be one of threads, ray, not 'slurm'"):
        simulate_optimistically(Cluster(), 1, executor="slurm")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"ray is missing \(extra ray\): pip install ray"):
        simulate_optimistically(Cluster(), 1, executor="ray")


def spread(name: str) -> Any:
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector({"app": "x"}),
    )
    return pod(name, labels={"app": "x"}, topology_spread_constraints=(constraint,))


def test_a_skew_that_two_schedulers_make_together_is_a_conflict() -> None:
    nodes = [node(f"n{at}", zone=f"z{at % 2}") for at in range(4)]
    cluster = Cluster(nodes=nodes, pods=[spread(f"p{at}") for at in range(12)])
    out = simulate_optimistically(cluster, 2, chunk=1)
    check(out, cluster)
    zones = [out.result.placements[f"default/p{at}"][1:] in "02" for at in range(12)]
    assert sum(zones) == 6
    reasons = {reason for one in out.schedulers for reason in one.conflicts}
    assert reasons == {"node(s) didn't match pod topology spread constraints"}


def test_claims_are_bound_by_the_binder() -> None:
    late = storage_class("late", mode="WaitForFirstConsumer")
    claims = [claim(f"c{at}", of_class="late", modes=("ReadWriteOnce",)) for at in range(6)]
    pods = [asking(f"p{at}", "2", volumes=(uses(claim=f"c{at}"),)) for at in range(6)]
    cluster = Cluster(nodes=[node("a"), node("b")], pods=pods, others=[late, *claims])
    out = simulate_optimistically(cluster, 2, chunk=2)
    check(out, cluster)
    assert len(out.result.placements) == out.bound == 4
    store = out.scheduler.client
    bound = [one for one in store.list(PersistentVolumeClaim)[0] if one.spec.volume_name]
    assert len(bound) == 4


def test_gangs_are_bound_whole_or_not_at_all() -> None:
    """Room for ten of fourteen: schedulers that meet on two nodes of four give up the whole gang."""
    sizes = {"a": 2, "b": 4, "c": 4, "d": 4}
    groups = [gang(name, size) for name, size in sizes.items()]
    pods = [one for name, size in sizes.items() for one in members(name, size, cpu=2)]
    cluster = Cluster(nodes=[node(f"n{at}") for at in range(6)], pods=pods, others=[*groups])
    out = simulate_optimistically(cluster, 3, chunk=4, settings={"feature_gates": GATES})
    placed = Counter(key.removeprefix("default/")[0] for key in out.result.placements)
    assert placed == {"a": 2, "b": 4, "d": 4}
    reasons = {reason for one in out.schedulers for reason in one.conflicts}
    few = "pod group default/c: 2 of its pods could be bound, 4 are wanted"
    assert reasons == {"Insufficient cpu", few}
    check(out, cluster)


def test_victims_are_evicted_once() -> None:
    nodes = [node(name) for name in "ab"]
    low = [asking(f"low{at}", "2", on="ab"[at % 2]) for at in range(4)]
    cluster = Cluster(nodes=nodes, pods=[*low, *(asking(f"high{at}", "2", 5) for at in range(6))])
    out = simulate_optimistically(cluster, 2, chunk=2)
    assert sorted(out.result.evicted) == [f"default/low{at}" for at in range(4)]
    assert len(out.result.placements) == 4
    assert len(out.result.unschedulable) == 2
    check(out, cluster)


@pytest.mark.parametrize(("schedulers", "chunk"), [(0, 1), (1, 0)])
def test_at_least_one_of_each(schedulers: int, chunk: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        simulate_optimistically(Cluster(), schedulers, chunk=chunk)
