"""kube-scheduler's figures beside those of `bench.scheduler_perf`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.peer import __main__ as peer

EXCERPT = Path("tests/data/scheduler_perf")


def item(name: str, metric: str, average: float) -> dict[str, object]:
    return {"data": {"Average": average}, "unit": "pods/s", "labels": {"Metric": metric, "Name": name}}


def test_the_table_has_the_throughput_of_the_chosen_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / peer.SUITE
    suite.parent.mkdir(parents=True)
    suite.symlink_to(EXCERPT.resolve())
    items = tmp_path / "BenchmarkPerfScheduling_benchmark.json"
    found = [
        item("BenchmarkPerfScheduling/SchedulingBasic/5Nodes/namespace-2", "SchedulingThroughput", 10.0),
        item("BenchmarkPerfScheduling/SchedulingBasic/5Nodes/namespace-2", "scheduling_duration", 1.0),
        item("BenchmarkPerfScheduling/Other/5Nodes/namespace-2", "SchedulingThroughput", 20.0),
    ]
    items.write_text(json.dumps({"version": "v1", "dataItems": found}))
    peer.main([str(tmp_path), "excerpt", "--case", "SchedulingBasic", "--items", str(items)])
    head, _, *rows = (line.strip("|").split("|") for line in capsys.readouterr().out.splitlines())
    assert [cell.strip() for cell in head] == peer.HEADINGS
    assert [[cell.strip() for cell in row][:2] for row in rows] == [["SchedulingBasic/5Nodes", "10"]]
