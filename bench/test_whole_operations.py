"""Whole operations: each a command or method that users call, timed as a whole.

All figures are processor time of all threads, which hardly depends on what else the machine does.
"""

from __future__ import annotations

import gc
import itertools
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.cluster import NODES, filled_scheduler, plain_pods
from bench.scheduler_perf import read_workloads, run_workload
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.kube import Cluster, Pod, write_cluster

WORKLOADS = Path(__file__).parents[1] / "tests/data/scheduler_perf/excerpt/large-workloads.yaml"
CASES = (
    "SchedulingBasic",
    "SchedulingPodAffinity",
    "TopologySpreading",
    "PreemptionBasic",
    "PreemptionAsync",
    "Unschedulable",
)
UNITS = {"PreemptionBasic": "preemptor"}
pytestmark = pytest.mark.benchmark(timer=time.process_time)
ROUNDS = 3


def measure(benchmark: Any, report: Any, case: str, per: str = "pod") -> None:
    """Time a case: the `seconds` of its report, all that happened while metrics were collected."""
    (workload,) = read_workloads(str(WORKLOADS), case)
    reports = []

    def run() -> None:
        reports.append(run_workload(workload, timer=time.process_time_ns))
        assert not reports[-1].failed

    benchmark.pedantic(run, rounds=ROUNDS)
    best = min(one.seconds for one in reports)
    report(f"`bench.scheduler_perf` {workload.full_name}, per {per}", reports[-1].measured_pods, seconds=best)


@pytest.mark.parametrize("case", CASES)
def test_perf(benchmark: Any, report: Any, case: str) -> None:
    measure(benchmark, report, case, UNITS.get(case, "pod"))


def test_run(benchmark: Any, report: Any) -> None:
    """From objects to bindings: the scheduler's making included, that of the cluster not."""
    pods = 50_000
    cluster = synthetic(nodes=NODES, pods=pods)

    def collect() -> None:
        gc.collect()

    def run() -> Any:
        return Scheduler(cluster).run()

    report("`Scheduler(cluster).run()`, 5,000 nodes, 50,000 pods, per pod", pods)
    assert len(benchmark.pedantic(run, setup=collect, rounds=ROUNDS).placements) > 0.99 * pods


def test_schedule_pods(benchmark: Any, report: Any) -> None:
    """One pod a call, each of the same class, on nodes that are in use."""
    scheduler, (like,) = filled_scheduler(), plain_pods(1)
    numbers = itertools.count()

    def pod() -> tuple[tuple[list[Pod]], dict[str, Any]]:
        name = f"one-{next(numbers)}"
        return ([replace(like, metadata=replace(like.metadata, name=name, uid=name))],), {}

    report("`Scheduler.schedule_pods([pod])`, 5,000 nodes")
    result = benchmark.pedantic(scheduler.schedule_pods, setup=pod, rounds=1000, warmup_rounds=10)
    assert result.nodes[0] is not None


# ---- commands ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with pending pods, one of which fits nowhere."""
    made = synthetic(nodes=NODES, pods=20_000)
    huge = made.pods[0]
    (container,) = huge.spec.containers
    requests = container.resources.requests | {"cpu": "1000"}
    container = replace(container, resources=replace(container.resources, requests=requests))
    huge = replace(
        huge,
        metadata=replace(huge.metadata, name="huge", uid="huge"),
        spec=replace(huge.spec, containers=(container,)),
    )
    path = tmp_path_factory.mktemp("front") / "dump.json"
    write_cluster(path, Cluster(nodes=made.nodes, pods=[*made.pods, huge]))
    return path


def command(*arguments: str) -> tuple[str, float]:
    """Run `moorage` in a process of its own; what it prints, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "moorage", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed(benchmark: Any, *arguments: str) -> tuple[str, float]:
    """Run a command some times; what it prints, and the least time."""
    found = []
    benchmark.pedantic(lambda: found.append(command(*arguments)), rounds=ROUNDS)
    return found[0][0], min(seconds for _, seconds in found)


def test_simulate(benchmark: Any, report: Any, dump: Path) -> None:
    out, seconds = timed(benchmark, "simulate", "-f", str(dump), "--summary")
    report("`moorage simulate` of a dump of 5,000 nodes, 20,000 pods", seconds=seconds)
    assert "20000" in out


def test_explain(benchmark: Any, report: Any, dump: Path) -> None:
    out, seconds = timed(benchmark, "explain", "huge", "-f", str(dump))
    report("`moorage explain` of a pod in that dump", seconds=seconds)
    assert f"fits 0 of {NODES} nodes" in out
