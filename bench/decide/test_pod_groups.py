"""Pod groups over 5,000 nodes: whole gangs, one that fails at its last member, and gangs bound to a rack."""

from __future__ import annotations

from typing import Any

import pytest
from bench import plugin_pods
from bench.cluster import NODES, fill

from moorage import Cluster, Scheduler, synthetic
from moorage.engine.scheduler.group_batch import GroupBatch
from moorage.engine.scheduler.place_group import place_group
from moorage.kube import (
    GangSchedulingPolicy,
    Node,
    NodeStatus,
    ObjectMeta,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)

HALF = 0.5  # of the cluster is in use before
RACK, RACKS = "topology.kubernetes.io/rack", 50
SMALL = {"cpu": "100m", "memory": "100Mi"}
SIZES = {(10, 5000): "gangs of 5,000", (1000, 3): "gangs of 3"}
BOUND = {(750, 4): "gangs of 4", (3, 1000): "gangs of 1,000"}


class Gangs:
    """Gangs of equal pods, which are gone again before each round."""

    def __init__(self, scheduler: Scheduler, count: int, size: int, key: str = "") -> None:
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(size))
        constraints = PodGroupSchedulingConstraints((TopologyConstraint(key),)) if key else None
        spec = PodGroupSpec(scheduling_policy=policy, scheduling_constraints=constraints)
        self.group = PodGroup(metadata=ObjectMeta(name="gang", namespace="default"), spec=spec)
        self.scheduler, self.engine = scheduler, scheduler.context.rotation.engines[0]
        pods = plugin_pods.copies(plugin_pods.pod("member", {"app": "member"}, requests=SMALL), count * size)
        self.gangs = [pods[at : at + size] for at in range(0, count * size, size)]

    def clear(self) -> None:
        cache, there = self.scheduler.cache, [pod for pods in self.gangs for pod in pods]
        cache.forget_pods([cache.get_pod(pod) for pod in there if cache.state.has_pod(pod)])
        self.scheduler.context.rotation.start = 0

    def place(self) -> None:
        for pods in self.gangs:
            place_group(self.scheduler.context, self.engine, self.group, pods)


class GangsByOneCall(Gangs):
    """Gangs that a run tries together."""

    def place(self) -> None:
        count = len(self.gangs)
        batch = GroupBatch(self.scheduler.context, [self.group] * count, self.gangs, [()] * count)
        at = 0
        while at < count:
            at = batch.place(at)


def measure(benchmark: Any, gangs: Gangs, fits: bool = True) -> None:
    gangs.place()  # pods and nodes have been met before
    benchmark.pedantic(gangs.place, setup=gangs.clear, rounds=5)
    state = gangs.scheduler.cache.state
    assert all(state.has_pod(pod) == fits for pods in gangs.gangs for pod in pods)


@pytest.mark.parametrize("size", SIZES, ids=SIZES.values())
def test_gangs(benchmark: Any, report: Any, size: tuple[int, int]) -> None:
    gangs = Gangs(fill(synthetic(nodes=NODES, seed=1), HALF), *size)
    report(f"{SIZES[size]}, {NODES:,} nodes, each pod", size[0] * size[1])
    measure(benchmark, gangs)


@pytest.mark.parametrize("kind", [GangsByOneCall, Gangs])
def test_many_gangs_by_one_call(benchmark: Any, report: Any, kind: type[Gangs]) -> None:
    gangs = kind(fill(synthetic(nodes=NODES, seed=1), HALF), 1000, 3)
    report(f"1,000 gangs of 3 in a run, {NODES:,} nodes, each pod", 3000, twin=kind is Gangs)
    measure(benchmark, gangs)


def test_a_gang_that_fails_at_its_last_member(benchmark: Any, report: Any) -> None:
    gangs = Gangs(fill(synthetic(nodes=NODES, seed=1), HALF), 1, NODES)
    large = plugin_pods.pod("large", {"app": "member"}, requests={"cpu": "1000"})
    gangs.gangs[0][-1] = plugin_pods.copies(large, 1)[0]
    report(f"gang of 5,000 that fails at its last member, {NODES:,} nodes, each pod", NODES)
    measure(benchmark, gangs, False)


@pytest.mark.parametrize("kind", [GangsByOneCall, Gangs])
@pytest.mark.parametrize("size", BOUND, ids=BOUND.values())
def test_gangs_bound_to_a_rack(benchmark: Any, report: Any, size: tuple[int, int], kind: type[Gangs]) -> None:
    """The workloads podgroup/tas of scheduler_perf."""
    allocatable = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    nodes = [
        Node(
            metadata=ObjectMeta(name=f"node-{at}", labels={RACK: f"rack-{at * RACKS // NODES}"}),
            status=NodeStatus(allocatable=allocatable),
        )
        for at in range(NODES)
    ]
    gates = dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling"), True)
    scheduler = Scheduler(Cluster(nodes=nodes), kubernetes_version="1.37", feature_gates=gates)
    what = f"{BOUND[size]} bound to a rack, {NODES:,} nodes, {RACKS} racks, each pod"
    report(what, size[0] * size[1], twin=kind is Gangs)
    measure(benchmark, kind(scheduler, *size, RACK))
