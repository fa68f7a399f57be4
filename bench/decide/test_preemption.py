"""Pods that fit nowhere and evict others: 5,000 full nodes of several sizes, four pods on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from bench import plugin_pods as pods
from bench.batch import place_run
from bench.cluster import NODES, placer_of
from bench.twins.preemption_twin import PreemptionTwin, There
from msgspec.structs import replace

from moorage import Cluster, Scheduler, synthetic
from moorage._core.preempt.preemptor import Preemptor
from moorage.answers.explain.examine_preemption import examine_preemption
from moorage.engine.preemption.dry_run import PreemptionDryRuns
from moorage.engine.scheduler.place import Placing
from moorage.kube import (
    Affinity,
    AllDisruptionMode,
    DisruptionMode,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodGroup,
    PodGroupSpec,
    PodSchedulingGroup,
    PodStatus,
)

EACH = 4  # pods on a node
PODS = 500
ROUNDS = 12
CLASSES = 50  # tried one after the other
SELECTED = "abcde"  # by a budget each; as many pods are selected by none
HARD = "DoNotSchedule"


def victim(random: Random, node: Node, number: int) -> Pod:
    """A quarter of a node."""
    cpu = int(node.status.allocatable["cpu"]) * 1000 // EACH
    memory = int(str(node.status.allocatable["memory"]).removesuffix("Gi")) // EACH
    requests: dict[str, Any] = {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}
    app = random.choice(SELECTED) if random.random() < 0.5 else "other"
    pod = pods.pod(f"{node.name}-{number}", {"app": app}, requests=requests)
    started = f"2026-01-{random.randint(1, 28):02}T{random.randint(0, 23):02}:{random.randint(0, 59):02}:00Z"
    spec = replace(pod.spec, node_name=node.name, priority=random.choice([0, 1, 2, 5, 10]))
    return replace(pod, spec=spec, status=PodStatus(start_time=started))


def full_cluster(nodes: int = NODES) -> Cluster:
    random = Random(1)
    made = [crowded(node) for node in synthetic(nodes=nodes, seed=1).nodes]
    return Cluster(nodes=made, pods=[victim(random, node, at) for node in made for at in range(EACH)])


def crowded(node: Node) -> Node:
    """A node without taints that takes no more pods than are there: it is full after evictions too."""
    allocatable: dict[str, Any] = node.status.allocatable | {"pods": EACH}
    spec, status = replace(node.spec, taints=()), replace(node.status, allocatable=allocatable)
    return replace(node, spec=spec, status=status)


BUDGETS = tuple(
    PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=at),
    )
    for at, app in enumerate(SELECTED)
)


def high(pod: Pod, number: int) -> Pod:
    """One of its own class, which evicts everybody who was there before."""
    spec = replace(pod.spec, priority=100 + number)
    return replace(pod, spec=spec)


def affine(kind: str, key: str) -> Pod:
    side = PodAffinity(required=(pods.term(key, app="high"),))
    affinity = Affinity(pod_affinity=side) if kind == "near" else Affinity(pod_anti_affinity=side)
    return pods.pod("high", {"app": "high"}, affinity=affinity, requests=REQUESTS)


REQUESTS: dict[str, Any] = {"cpu": "2", "memory": "4Gi"}


def spread(**keys: int) -> Pod:
    pod = pods.spread("high", HARD, **keys)
    containers = pods.pod("high", {}, requests=REQUESTS).spec.containers
    return replace(pod, spec=replace(pod.spec, containers=containers))


@dataclass(frozen=True)
class Case:
    name: str
    pod: Callable[[], Pod]
    budgets: Sequence[PodDisruptionBudget] = ()
    pods: int = PODS


PLAIN = Case("preemption", lambda: pods.pod("high", {"app": "high"}, requests=REQUESTS))
BUDGETED = Case("preemption, 5 budgets", PLAIN.pod, BUDGETS)
CASES = (
    PLAIN,
    BUDGETED,
    Case("preemption, hard spread over zones", lambda: spread(zone=1), pods=100),
    Case("preemption, hard spread over hosts", lambda: spread(hostname=1), pods=100),
    Case("preemption, required anti-affinity", lambda: affine("far", pods.HOSTNAME), pods=100),
    Case("preemption, required affinity", lambda: affine("near", pods.ZONE), pods=100),
)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Runs:
    """Runs of equal pods, each of a class that has been tried in vain, as a pod is before it preempts."""

    def __init__(self, case: Case, count: int) -> None:
        self.scheduler = Scheduler(full_cluster())
        self.case, self.count = case, count
        self.state = self.scheduler.cache.state
        self.placer = placer_of(self.scheduler, 0)
        self.preemptor = Preemptor(self.placer.decider)
        self.number = 0

    def next(self) -> tuple[int, list[Pod]]:
        """The class of the next run, and its pods."""
        like = high(self.case.pod(), self.number)
        self.number += 1
        batch = [self._named(like, at) for at in range(self.count)]
        targets = [self.scheduler.context.target_of(pod) for pod in batch]
        assert len(place_run(self.placer, targets[0][0], 1)) == 0
        self.state.view.follow_usage()
        return targets[0][0], batch

    def _named(self, like: Pod, at: int) -> Pod:
        name = f"high-{self.number}-{at}"
        return replace(like, metadata=replace(like.metadata, name=name, uid=name))


@cases
def test_first(benchmark: Any, report: Any, case: Case) -> None:
    """The first of its class, for many classes one after the other."""
    runs = Runs(case, 1)

    def fresh() -> tuple[tuple[list[tuple[int, list[Pod]]]], dict[str, Any]]:
        return ([runs.next() for _ in range(CLASSES)],), {}

    def run(first: list[tuple[int, list[Pod]]]) -> None:
        for pod_class, batch in first:
            runs.preemptor.place_run((pod_class, 0, 0), batch, case.budgets)

    report(f"{case.name}, 5,000 full nodes, first of a class", CLASSES)
    benchmark.pedantic(run, setup=fresh, rounds=ROUNDS)


@cases
def test_following(benchmark: Any, report: Any, case: Case) -> None:
    """Those that follow."""
    runs = Runs(case, case.pods)

    def fresh() -> tuple[tuple[int, list[Pod]], dict[str, Any]]:
        pod_class, batch = runs.next()
        runs.preemptor.place_run((pod_class, 0, 0), batch[:1], case.budgets)
        return (pod_class, batch[1:]), {}

    def run(pod_class: int, batch: list[Pod]) -> None:
        placed = runs.preemptor.place_run((pod_class, 0, 0), batch, case.budgets).rows
        assert len(placed) == len(batch)

    report(f"{case.name}, 5,000 full nodes, following", case.pods - 1)
    benchmark.pedantic(run, setup=fresh, rounds=ROUNDS)


@pytest.mark.parametrize("way", ["together", "cycles"])
def test_nominated(benchmark: Any, report: Any, way: str) -> None:
    """The second attempts of preemptors: pods that fit on the nodes to which they are nominated."""
    nodes = synthetic(nodes=1_000, seed=1).nodes
    asking = [
        replace(pods.pod(f"n{at}", {}, requests=REQUESTS), status=PodStatus(nominated_node_name=node.name))
        for at, node in enumerate(nodes)
    ]
    untainted = [replace(node, spec=replace(node.spec, taints=())) for node in nodes]
    cluster = Cluster(nodes=untainted, pods=asking)
    place = Placing._place_nominated if way == "together" else lambda self, first, end: first

    def run(scheduler: Scheduler) -> None:
        with patch.object(Placing, "_place_nominated", place):
            assert len(scheduler.run().placements) == len(asking)

    report("run of pods that fit on their nominated nodes, per pod", len(asking), way == "cycles")
    benchmark.pedantic(run, setup=lambda: ((Scheduler(cluster),), {}), rounds=ROUNDS)


# ---- groups


GROUPS, OF_GROUP = 1000, 10
GATES = {"GenericWorkload": True}


def bare(name: str) -> Node:
    allocatable = {"cpu": str(OF_GROUP), "memory": "64Gi", "pods": "20"}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=allocatable))


def of_groups() -> Scheduler:
    """Full nodes of ten pods each; the pods of a group, which is evicted as a whole, are on ten nodes."""
    nodes = [bare(f"n{at}") for at in range(GROUPS)]
    mode = DisruptionMode(all=AllDisruptionMode())
    spec = PodGroupSpec(disruption_mode=mode, priority=0)
    meta = [ObjectMeta(name=f"g{at}", namespace="default", uid=f"g{at}") for at in range(GROUPS)]
    there = []
    for number in range(GROUPS * OF_GROUP):
        pod = pods.pod(f"low-{number}", {}, requests={"cpu": "1"})
        node, group = nodes[number % GROUPS].name, PodSchedulingGroup(f"g{number // OF_GROUP}")
        there.append(replace(pod, spec=replace(pod.spec, node_name=node, scheduling_group=group)))
    groups = [PodGroup(metadata=one, spec=spec) for one in meta]
    return Scheduler(
        Cluster(nodes=nodes, pods=there, others=groups), kubernetes_version="1.37", feature_gates=GATES
    )


@pytest.mark.parametrize("twin", [False, True], ids=["core", "python"])
def test_groups(benchmark: Any, report: Any, monkeypatch: pytest.MonkeyPatch, twin: bool) -> None:
    """The dry runs for one pod, by the core and by the way of plugins in Python."""
    scheduler = of_groups()
    engine = scheduler.engines["default-scheduler"]
    pod = pods.pod("high", {}, requests={"cpu": "4"})
    pod = replace(pod, spec=replace(pod.spec, priority=100))
    if twin:
        monkeypatch.setattr(PreemptionDryRuns, "framework_of", lambda *given: None)
    report(f"preemption, {GROUPS:,} groups evicted whole, dry runs of 100 candidates", twin=twin)
    found = benchmark.pedantic(
        lambda: examine_preemption(engine, pod, everywhere=False), rounds=3 if twin else ROUNDS
    )
    assert len(found.choice.candidate.victims.pods) == 4 * OF_GROUP


# ---- the twin


def twin_of(scheduler: Scheduler, budgets: Sequence[PodDisruptionBudget]) -> PreemptionTwin:
    state, rows = scheduler.cache.state, scheduler.context.view_rows()
    table = scheduler.table
    free = np.stack(
        [table.allocatable[name][rows] - table.requested[name][rows] for name in ("cpu", "memory")], axis=1
    )
    slots = (table.allocatable["pods"] - table.requested["pods"])[rows]
    of_app = {budget.name: at for at, budget in enumerate(budgets)}

    def there(pod: Pod) -> There:
        shape = state.classes.shape_of(state.classes.intern(pod))
        app = pod.metadata.labels["app"]
        mine = (of_app[app],) if app in of_app else ()
        return There(pod.name, pod.spec.priority or 0, pod.status.start_time or "9999", *shape.requests, mine)

    on = [[there(pod) for pod in state.pods_of(row)] for row in rows.tolist()]
    return PreemptionTwin(free, slots, on, {at: b.status.disruptions_allowed for at, b in enumerate(budgets)})


@pytest.mark.parametrize("case", [PLAIN, BUDGETED], ids=lambda case: case.name)
def test_twin(benchmark: Any, report: Any, case: Case) -> None:
    runs = Runs(case, 20)
    twin = twin_of(runs.scheduler, case.budgets)
    pod_class, batch = runs.next()
    shape = runs.state.classes.shape_of(pod_class)
    ours = runs.preemptor.place_run((pod_class, 0, 0), batch, case.budgets)
    order = runs.scheduler.context.view_rows()
    at = iter(range(len(batch)))

    def place() -> None:
        number = next(at)
        pod = There(batch[number].name, batch[number].spec.priority or 0, "9999", *shape.requests)
        position, victims = twin.place(pod)
        assert order[position] == ours.rows[number]
        assert [one.name for one in victims] == [one.name for one in ours.victims(number)]

    report(f"{case.name}, 5,000 full nodes, first of a class", twin=True)
    report(f"{case.name}, 5,000 full nodes, following", twin=True)
    benchmark.pedantic(place, rounds=len(batch))
