"""Each in-tree plugin alone, over 5,000 nodes, without pods and with 5,000."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from bench import plugin_pods as pods
from bench.twins import plugin_twins as twins
from bench.twins import term_twins
from bench.twins.plugin_twins import Nodes, Twin
from msgspec.structs import replace

from moorage import Scheduler
from moorage._core.decide.decider import TieBreak
from moorage._core.decide.placer import Placer
from moorage.engine.framework import Plugin, Profile
from moorage.engine.plugins.node_resources import NodeResourcesFit
from moorage.engine.plugins.queue_and_groups import SchedulingGates
from moorage.engine.plugins.registry import default_profile
from moorage.kube import Pod, PodSchedulingGate
from moorage.store import ObjectStore

QUEUED = 5000
ROUNDS = {"rounds": 60, "iterations": 5, "warmup_rounds": 2}
LOADS = ("plain", "loaded")
BOTH = ("filter", "score")


@dataclass(frozen=True)
class Case:
    """A plugin and a pod that uses it."""

    name: str
    plugin: str
    pod: Callable[[], Pod]
    twin: type[Twin]
    parts: tuple[str, ...] = BOTH
    instead: Plugin | None = None


def strategy(kind: str, **more: Any) -> NodeResourcesFit:
    resources = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})
    return NodeResourcesFit({"scoringStrategy": {"type": kind, "resources": resources, **more}})


POINTS = {"shape": [{"utilization": at, "score": of} for at, of in twins.RequestedToCapacityRatio.points]}
FILTER, SCORE = BOTH[:1], BOTH[1:]
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

CASES = (
    Case("NodeUnschedulable", "NodeUnschedulable", pods.plain, twins.NodeUnschedulable, FILTER),
    Case("NodeName", "NodeName", pods.on_a_node, twins.NodeName, FILTER),
    Case("TaintToleration", "TaintToleration", pods.tolerant, twins.TaintToleration),
    Case("NodeAffinity required", "NodeAffinity", pods.affine_to_nodes, twins.NodeAffinity, FILTER),
    Case("NodeAffinity preferred", "NodeAffinity", pods.preferring_nodes, twins.NodeAffinity, SCORE),
    Case("NodePorts", "NodePorts", pods.with_ports, twins.NodePorts, FILTER),
    Case("Fit LeastAllocated", "NodeResourcesFit", pods.plain, twins.NodeResourcesFit),
    Case(
        "Fit MostAllocated",
        "NodeResourcesFit",
        pods.plain,
        twins.MostAllocated,
        SCORE,
        strategy("MostAllocated"),
    ),
    Case(
        "Fit RequestedToCapacityRatio",
        "NodeResourcesFit",
        pods.plain,
        twins.RequestedToCapacityRatio,
        SCORE,
        strategy("RequestedToCapacityRatio", requestedToCapacityRatio=POINTS),
    ),
    Case(
        "BalancedAllocation",
        "NodeResourcesBalancedAllocation",
        pods.plain,
        twins.BalancedAllocation,
        SCORE,
    ),
    Case("ImageLocality", "ImageLocality", pods.with_images, twins.ImageLocality, SCORE),
)
TERM_CASES = (
    Case(
        "Spread hard zone",
        "PodTopologySpread",
        lambda: pods.spread("web", HARD, zone=1),
        term_twins.HardSpread,
        FILTER,
    ),
    Case(
        "Spread hard host",
        "PodTopologySpread",
        lambda: pods.spread("web", HARD, hostname=1),
        term_twins.HardSpread,
        FILTER,
    ),
    Case(
        "Spread soft",
        "PodTopologySpread",
        lambda: pods.spread("web", SOFT, zone=1, hostname=1),
        term_twins.SoftSpread,
        SCORE,
    ),
    Case(
        "Spread by default",
        "PodTopologySpread",
        pods.spread_by_default,
        term_twins.SystemSpread,
        SCORE,
    ),
    Case(
        "Affinity required",
        "InterPodAffinity",
        pods.affine_to_pods,
        term_twins.RequiredAffinity,
        FILTER,
    ),
    Case(
        "Affinity preferred",
        "InterPodAffinity",
        pods.preferring_pods,
        term_twins.PreferredAffinity,
        SCORE,
    ),
    Case("Affinity of others", "InterPodAffinity", pods.subject_to_pods, term_twins.TermsOfOthers),
)
PARTS = [
    pytest.param(case, part, id=f"{case.name}-{part}") for case in CASES + TERM_CASES for part in case.parts
]


@dataclass
class World:
    scheduler: Scheduler
    nodes: Nodes


@pytest.fixture(scope="session", params=LOADS)
def world(request: pytest.FixtureRequest) -> World:
    cluster = pods.cluster(request.param == "loaded")
    scheduler = Scheduler(cluster)
    return World(scheduler, Nodes(scheduler, cluster.nodes, cluster.pods))


@pytest.fixture
def load(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["world"])


def placer_of(scheduler: Scheduler, case: Case, percentage: int = 100) -> Placer:
    """A search of the default profile with the case's plugin in place of its own."""
    profile, instead = default_profile(), case.instead
    plugins = [
        instead if instead is not None and plugin.name == instead.name else plugin
        for plugin in profile.plugins
    ]
    state = scheduler.cache.state
    return Placer(state, Profile(plugins=plugins).compile(state), TieBreak.FIRST, percentage)


# ---- one plugin, all nodes


@pytest.mark.parametrize("who", ["moorage", "twin"])
@pytest.mark.parametrize(("case", "part"), PARTS)
def test_plugin(  # noqa: PLR0913
    benchmark: Any, report: Any, world: World, load: str, case: Case, part: str, who: str
) -> None:
    scheduler, pod = world.scheduler, case.pod()
    placer, target = placer_of(scheduler, case), scheduler.context.target_of(pod)
    twin = case.twin(world.nodes, pod)
    report(f"{case.name}, {part}, {load}", twin=who == "twin")
    if part == "filter":
        _, verdicts = placer.search.filter_verdicts(case.plugin, *target)
        assert np.array_equal(verdicts, twin.filter())
        run = (
            (placer.search.filter_verdicts, (case.plugin, *target)) if who == "moorage" else (twin.filter, ())
        )
    else:
        rows, verdicts = placer.search.verdicts(*target)
        at = np.flatnonzero(verdicts == 0)
        raw, normalized = placer.search.scores(case.plugin, rows[at], *target)
        assert len(at) > 1000
        assert [raw.tolist(), normalized.tolist()] == [column.tolist() for column in twin.score(at)]
        ours = placer.search.scores, (case.plugin, rows[at], *target)
        run = ours if who == "moorage" else (twin.score, (at,))
    benchmark.pedantic(*run, **ROUNDS)


# ---- the queue and the binding


def gated(pod: Pod, number: int) -> Pod:
    gates = (PodSchedulingGate("example.com/gate"),) if number % 10 == 0 else ()
    created = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
    metadata = replace(pod.metadata, creation_timestamp=created)
    return replace(
        pod, metadata=metadata, spec=replace(pod.spec, scheduling_gates=gates, priority=number % 7)
    )


@pytest.fixture(scope="module")
def queue() -> list[Pod]:
    return [gated(pod, number) for number, pod in enumerate(pods.copies(pods.plain(), QUEUED))]


@pytest.mark.parametrize("who", ["moorage", "twin"])
def test_scheduling_gates(benchmark: Any, report: Any, queue: list[Pod], who: str) -> None:
    def ours() -> list[bool]:
        return [plugin.pre_enqueue(pod) is None for pod in queue]

    def twin() -> list[bool]:
        return [not pod.spec.scheduling_gates for pod in queue]

    plugin = SchedulingGates()
    assert ours() == twin()
    report("SchedulingGates, PreEnqueue, per pod", QUEUED, twin=who == "twin")
    benchmark.pedantic(ours if who == "moorage" else twin, rounds=20)


@pytest.mark.parametrize("who", ["moorage", "twin"])
def test_default_binder(benchmark: Any, report: Any, queue: list[Pod], who: str) -> None:
    """The store's bulk binding, which is what the engine calls; the twin checks nothing, gives no versions
    and keeps no log for watches."""
    nodes = [f"node-{number:05}" for number in range(QUEUED)]
    queue = [replace(pod, spec=replace(pod.spec, scheduling_gates=())) for pod in queue]

    def ours() -> ObjectStore:
        store = ObjectStore()
        store.create_many(queue)
        return store

    def twins() -> dict[str, Pod]:
        return {pod.key: pod for pod in queue}

    def twin(objects: dict[str, Pod]) -> None:
        for pod, node in zip(queue, nodes, strict=True):
            there = objects[pod.key]
            objects[pod.key] = replace(there, spec=replace(there.spec, node_name=node))

    store, objects = ours(), twins()
    store.bind_many(queue, nodes)
    twin(objects)
    for pod in queue:
        assert store.get(Pod, pod.name, pod.namespace).spec.node_name == objects[pod.key].spec.node_name
    report("DefaultBinder, in bulk, per pod", QUEUED, twin=who == "twin")
    if who == "twin":
        benchmark.pedantic(twin, setup=lambda: ((twins(),), {}), rounds=10)
    else:
        benchmark.pedantic(
            lambda store: store.bind_many(queue, nodes), setup=lambda: ((ours(),), {}), rounds=10
        )
