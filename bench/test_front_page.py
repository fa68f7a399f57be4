"""The lines of the front page: each a command or method that users call, timed as a whole.

Workloads of scheduler_perf are timed while metrics are collected: creating the measured pods, queue,
decisions, store, informers and binding. `moorage perf` itself tells the time of decisions alone.
"""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.cluster import NODES, filled_scheduler, plain_pods
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.objects import Cluster, write_cluster
from moorage.objects.model.pod import Pod
from moorage.sim.perf import loop, measure, read_cases, run_workload

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
ROUNDS = 3


class WholeMeter(measure.Meter):
    """Also times each window from its begin to its end.

    Attributes
    ----------
    seconds : float
        Of all windows.
    latest : WholeMeter
        The one that was made last: that of the run that a report is about.
    """

    latest: WholeMeter

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        WholeMeter.latest = self

    def open(self, window: measure.Window) -> None:
        super().open(window)
        self._began = time.perf_counter()

    def close(self) -> None:
        if self.window is not None:
            self.seconds += time.perf_counter() - self._began
        super().close()


@pytest.mark.parametrize("case", CASES)
def test_perf(benchmark: Any, report: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    (workload,) = read_cases(str(WORKLOADS), case)[0].workloads
    monkeypatch.setattr(loop, "Meter", WholeMeter)
    seconds = []

    def run() -> None:
        done = run_workload(workload)
        assert not done.failed
        assert done.measured_pods == WholeMeter.latest.pods > 0
        seconds.append(WholeMeter.latest.seconds)

    benchmark.pedantic(run, rounds=ROUNDS)
    per = UNITS.get(case, "pod")
    report(f"`moorage perf` {workload.full_name}, per {per}", WholeMeter.latest.pods, seconds=min(seconds))


def test_run(benchmark: Any, report: Any) -> None:
    """From objects to bindings: the scheduler's making included, that of the cluster not."""
    pods = 50_000
    cluster = synthetic(nodes=NODES, pods=pods)

    def collect() -> None:
        gc.collect()

    def run() -> Any:
        return Scheduler(cluster).run()

    report("`Scheduler(cluster).run()`, 5,000 nodes, 50,000 pods, per pod", pods)
    assert len(benchmark.pedantic(run, setup=collect, rounds=ROUNDS).placements) == pods


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


def command(*arguments: str) -> str:
    """Run `moorage` in a process of its own; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "moorage", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_simulate(benchmark: Any, report: Any, dump: Path) -> None:
    report("`moorage simulate` of a dump of 5,000 nodes, 20,000 pods")
    out = benchmark.pedantic(command, args=("simulate", "-f", str(dump), "--summary"), rounds=ROUNDS)
    assert "20000" in out


def test_explain(benchmark: Any, report: Any, dump: Path) -> None:
    report("`moorage explain` of a pod in that dump")
    out = benchmark.pedantic(command, args=("explain", "huge", "-f", str(dump)), rounds=ROUNDS)
    assert f"fits 0 of {NODES} nodes" in out
