"""The costs of workloads in placing times, where the figures are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from bench.scheduler_perf import Workload, WorkloadReport
from bench.scheduler_perf.report import NanosecondsPerPod
from bench.workloads.costs import main
from tests.house.source import ROOT

FILE = str(ROOT / "tests/data/scheduler_perf/excerpt/performance-config.yaml")
HEAD = ["| workload | pods | per pod | placing times |", "| --- | ---: | ---: | ---: |"]


class Given:
    """Stands for `run_workload`: the placing times and the costs are given, round by round."""

    def __init__(self, placing: Iterable[float], whole: Iterable[float], status: str = "done") -> None:
        self.placing, self.whole, self.status = iter(placing), iter(whole), status
        self.asked: list[tuple[str, str | None]] = []

    def __call__(self, workload: Workload, tie_break: str | None = None) -> WorkloadReport:
        self.asked.append((workload.full_name, tie_break))
        figures: Iterator[float] = self.placing if tie_break else self.whole
        figure = next(figures)
        return WorkloadReport(
            case=workload.case,
            workload=workload.name,
            status="done" if tie_break else self.status,
            measured_pods=1234,
            ns_per_pod=NanosecondsPerPod(mean=figure),
            placing_ns_per_pod=figure,
        )


def table(capsys: pytest.CaptureFixture[str], run: Given, *options: str) -> list[str]:
    main([FILE, "--case", "SchedulingBasic", *options], run)
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert [head, rule] == HEAD
    return rows


def test_the_best_of_all_rounds_by_turns(capsys: pytest.CaptureFixture[str]) -> None:
    run = Given([200.0, 150.0], [40_000.0, 30_000.0])
    assert table(capsys, run, "--rounds", "2") == ["| SchedulingBasic/5Nodes | 1,234 | 30.0 µs | 200 |"]
    plain, whole = ("SchedulingBasic/5000Nodes_50000Pods", "first"), ("SchedulingBasic/5Nodes", None)
    assert run.asked == [plain, whole, plain, whole]
