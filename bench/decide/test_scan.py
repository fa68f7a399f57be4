"""One full scan, batches of equal pods and single cycles, beside what numpy needs for the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench import plugin_pods
from bench.batch import Batch
from bench.cluster import NODES, PERCENTAGES, fill, filled_scheduler, placer_of, plain_pods
from bench.twins.numpy_twin import NumpyTwin, heap_top

from moorage import Scheduler, synthetic
from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.decider import TieBreak, num_feasible_nodes_to_find
from moorage._core.decide.pod_batch import PodBatch
from moorage.kube import Pod

SINGLE = 100
MANY_NODES = 100_000
PODS = {NODES: 1000, MANY_NODES: 20_000}  # so that the first look at all nodes weighs alike
PICKS: dict[TieBreak, Any] = {TieBreak.FIRST: np.argmax, TieBreak.GO_HEAP: heap_top}


@pytest.fixture(scope="module")
def many_nodes() -> Scheduler:
    return filled_scheduler(MANY_NODES)


def twin_of(scheduler: Scheduler, pod: Pod) -> NumpyTwin:
    rows, _ = scheduler.table.raw()
    shape = scheduler.cache.state.classes.shape_of(scheduler.context.target_of(pod)[0])
    return NumpyTwin(rows[scheduler.context.view_rows()], *shape.requests)


# ---- one full scan of 5,000 nodes: every filter and score, nothing left over from an earlier scan


def test_full_scan(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    pod = plain_pods(1)[0]
    placer, target = placer_of(scheduler, 100), scheduler.context.target_of(pod)
    row, _, evaluated, positions, totals = placer.decider.decide(*target)
    at, twin_positions, twin_totals = twin_of(scheduler, pod).decide()
    assert evaluated == NODES
    assert row == scheduler.context.view_rows()[at]
    assert np.array_equal(positions, twin_positions)
    assert np.array_equal(totals, twin_totals)
    report("full scan, 5,000 nodes")
    benchmark(placer.decider.decide, *target)


def test_full_scan_numpy(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    report("full scan, 5,000 nodes", twin=True)
    benchmark(twin_of(scheduler, plain_pods(1)[0]).decide)


# ---- a batch of equal pods

BATCHES = [(NODES, TieBreak.FIRST), (NODES, TieBreak.GO_HEAP), (MANY_NODES, TieBreak.FIRST)]
batches = pytest.mark.parametrize(
    ("nodes", "tie_break", "percentage"),
    [
        pytest.param(nodes, tie_break, percentage, id=f"{nodes}-{tie_break.name}-{share}")
        for nodes, tie_break in BATCHES
        for percentage, share in PERCENTAGES.items()
    ],
)


def line(nodes: int, tie_break: TieBreak, percentage: int) -> str:
    parity = ", go-heap" if tie_break == TieBreak.GO_HEAP else ""
    return f"plain pods, {nodes:,} nodes, {PERCENTAGES[percentage]}{parity}"


def cluster_of(request: pytest.FixtureRequest, nodes: int) -> Scheduler:
    """The one or the other, made when it is first asked for."""
    found: Scheduler = request.getfixturevalue("scheduler" if nodes == NODES else "many_nodes")
    return found


@batches
def test_batch(
    benchmark: Any, report: Any, request: Any, nodes: int, tie_break: TieBreak, percentage: int
) -> None:
    scheduler, pods = cluster_of(request, nodes), plain_pods(PODS[nodes])
    batch = Batch(scheduler, placer_of(scheduler, percentage, tie_break), pods)
    wanted = num_feasible_nodes_to_find(percentage, nodes)
    expected = twin_of(scheduler, pods[0]).place_run(len(pods), wanted, PICKS[tie_break])
    batch.place()
    assert np.array_equal(batch.rows, scheduler.context.view_rows()[expected])
    report(line(nodes, tie_break, percentage), len(pods))
    benchmark.pedantic(batch.place, setup=batch.again, rounds=30 if nodes == NODES else 8)
    batch.again()


@batches
def test_batch_numpy(
    benchmark: Any, report: Any, request: Any, nodes: int, tie_break: TieBreak, percentage: int
) -> None:
    scheduler, pod = cluster_of(request, nodes), plain_pods(1)[0]
    setting = PODS[nodes], num_feasible_nodes_to_find(percentage, nodes), PICKS[tie_break]
    report(line(nodes, tie_break, percentage), PODS[nodes], twin=True)

    def fresh() -> tuple[tuple[NumpyTwin], dict[str, Any]]:
        return (twin_of(scheduler, pod),), {}

    benchmark.pedantic(lambda twin: twin.place_run(*setting), setup=fresh, rounds=80 if nodes == NODES else 6)


def test_million(benchmark: Any, report: Any) -> None:
    """All of them in one call; fewer pods are there, so that they fit."""
    scheduler = fill(synthetic(nodes=130_000, seed=1), 0.4)
    placer, batch = placer_of(scheduler, 0), PodBatch(scheduler.cache.state, plain_pods(1) * 1_000_000)
    out = Placements(scheduler.cache.state, len(batch))
    report("1,000,000 plain pods, 130,000 nodes, adaptive")
    assert benchmark.pedantic(placer.place, (batch, out), rounds=1) == len(batch)
    assert (out.rows >= 0).all()


# ---- the first pods of a class: every node is looked at once

CLASS_BUILD = {
    1: "class with node affinity, its build, 100,000 nodes, 1 thread",
    2: "class with node affinity, its build, 100,000 nodes, 2 threads",
}


@pytest.mark.parametrize("threads", CLASS_BUILD)
def test_class_build(benchmark: Any, report: Any, many_nodes: Scheduler, threads: int) -> None:
    """Two pods, so that what is kept pays; each round has a class that was never seen before."""
    placer = placer_of(many_nodes, 100)
    placer.search.threads = threads
    fresh = (of_new_class(300 + 50 * threads + number) for number in range(50))
    rounds: list[Batch] = []

    def setup() -> tuple[tuple[Batch], dict[str, Any]]:
        for batch in rounds:
            batch.again()
        rounds[:] = [Batch(many_nodes, placer, next(fresh))]
        placer.decider.start = 0
        return (rounds[0],), {}

    report(CLASS_BUILD[threads])
    benchmark.pedantic(Batch.place, setup=setup, rounds=20)
    assert len(rounds[0].rows) == 2
    rounds[0].again()


def of_new_class(millicores: int) -> list[Pod]:
    requests: dict[str, Any] = {"cpu": f"{millicores}m", "memory": "512Mi"}
    affinity = plugin_pods.affine_to_nodes().spec.affinity
    pod = plugin_pods.pod(f"of-{millicores}", {"app": "web"}, requests=requests, affinity=affinity)
    return plugin_pods.copies(pod, 2)


# ---- one pod at a time, from Python


def test_schedule_one(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    pods = plain_pods(SINGLE)

    def again() -> None:
        for pod in pods:
            if scheduler.cache.is_assumed_pod(pod):
                scheduler.cache.forget_pod(scheduler.cache.get_pod(pod))

    def schedule() -> None:
        for pod in pods:
            scheduler.schedule_one(pod)

    report("schedule_one, plain, 5,000 nodes, adaptive", SINGLE)
    benchmark.pedantic(schedule, setup=again, rounds=30)
    assert all(scheduler.cache.is_assumed_pod(pod) for pod in pods)
    again()
