"""One full scan, batches, single cycles and loading, beside what plain Python and numpy need for the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from bench.cluster import NODES, plain_pods
from bench.numpy_twin import NumpyTwin

from moorage import Cluster, Scheduler, load, synthetic
from moorage._core.chooser import TieBreak, num_feasible_nodes_to_find
from moorage._core.cycle import Cycle
from moorage.objects.pod import Pod

BATCH = 1000
SINGLE = 100
LOADED = 50_000


def cycle_of(scheduler: Scheduler, percentage: int) -> Cycle:
    """A cycle over the scheduler's cluster with a percentage of its own."""
    return Cycle(scheduler.cache.state, scheduler.plan, TieBreak.FIRST, percentage)


def twin_of(scheduler: Scheduler, pod: Pod) -> NumpyTwin:
    rows, _ = scheduler.table.raw()
    shape = scheduler.cache.state.classes.shape_of(scheduler.classify(pod)[0])
    return NumpyTwin(rows[scheduler.view_rows()], *shape.requests)


# ---- one full scan of 5,000 nodes: every filter and score, nothing left over from an earlier scan


def test_full_scan(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    pod = plain_pods(1)[0]
    cycle, target = cycle_of(scheduler, 100), scheduler.classify(pod)
    row, _, evaluated, positions, totals = cycle.decide(*target)
    at, twin_positions, twin_totals = twin_of(scheduler, pod).decide()
    assert evaluated == NODES
    assert row == scheduler.view_rows()[at]
    assert np.array_equal(positions, twin_positions)
    assert np.array_equal(totals, twin_totals)
    report("full scan, 5,000 nodes")
    benchmark(cycle.decide, *target)


def test_full_scan_numpy(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    report("full scan, 5,000 nodes", twin=True)
    benchmark(twin_of(scheduler, plain_pods(1)[0]).decide)


# ---- a batch of equal pods


def take_back(scheduler: Scheduler, pod_class: int, pods: list[Pod], rows: Any) -> None:
    """Undo a batch, so that every round finds the same cluster."""
    state = scheduler.cache.state
    state.assume_rows(pod_class, pods, rows)
    for pod in pods[: len(rows)]:
        state.forget_pod(state.get_pod(pod))


@pytest.mark.parametrize("percentage", [0, 100], ids=["adaptive", "all"])
def test_batch(benchmark: Any, report: Any, scheduler: Scheduler, percentage: int) -> None:
    pods = plain_pods(BATCH)
    cycle, pod_class = cycle_of(scheduler, percentage), scheduler.classify(pods[0])[0]
    last: list[Any] = []

    def again() -> None:
        while last:
            take_back(scheduler, pod_class, pods, last.pop())
        cycle.start = 0

    def place() -> None:
        last.append(cycle.place_run(pod_class, BATCH))

    wanted = num_feasible_nodes_to_find(percentage, NODES)
    expected = twin_of(scheduler, pods[0]).place_run(BATCH, wanted)
    place()
    assert np.array_equal(last[0], scheduler.view_rows()[expected])
    report(f"batch of 1,000, {'100 %' if percentage else 'adaptive'}, per pod", BATCH)
    benchmark.pedantic(place, setup=again, rounds=30)
    again()


@pytest.mark.parametrize("percentage", [0, 100], ids=["adaptive", "all"])
def test_batch_numpy(benchmark: Any, report: Any, scheduler: Scheduler, percentage: int) -> None:
    pod, wanted = plain_pods(1)[0], num_feasible_nodes_to_find(percentage, NODES)
    report(f"batch of 1,000, {'100 %' if percentage else 'adaptive'}, per pod", BATCH, twin=True)

    def fresh() -> tuple[tuple[NumpyTwin], dict[str, Any]]:
        return (twin_of(scheduler, pod),), {}

    benchmark.pedantic(lambda twin: twin.place_run(BATCH, wanted), setup=fresh, rounds=20)


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

    report("schedule_one from Python, adaptive", SINGLE)
    benchmark.pedantic(schedule, setup=again, rounds=30)
    assert all(scheduler.cache.is_assumed_pod(pod) for pod in pods)
    again()


# ---- loading


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50,000 pods as the API server lists them."""
    path = tmp_path_factory.mktemp("dump") / "pods.json"
    path.write_bytes(msgspec.json.encode({"kind": "PodList", "items": synthetic(nodes=0, pods=LOADED).pods}))
    return path


def test_load(benchmark: Any, report: Any, dump: Path) -> None:
    def load_all() -> Cluster:
        cluster, scheduler = load(dump), Scheduler()
        for pod in cluster.pods:
            scheduler.classify(pod)
        return cluster

    report("reading a pod from JSON, with its class", LOADED)
    cluster = benchmark.pedantic(load_all, rounds=3)
    assert len(cluster.pods) == LOADED


def test_load_json(benchmark: Any, report: Any, dump: Path) -> None:
    report("reading a pod from JSON, with its class", LOADED, twin=True)
    found = benchmark.pedantic(lambda: json.loads(dump.read_bytes()), rounds=3)
    assert len(found["items"]) == LOADED
