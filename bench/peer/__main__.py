"""kube-scheduler's scheduler_perf and `moorage perf` on one file: `python -m bench.peer CHECKOUT FOLDER`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.table import markdown

SUITE = "test/integration/scheduler_perf"
BENCHMARK = "BenchmarkPerfScheduling"
HEADINGS = ["workload", "kube-scheduler, pods/s", "moorage, pods/s", "ratio", "threshold"]


def run_upstream(checkout: Path, folder: str, case: str, labels: str, items: Path) -> None:
    """Run the benchmark of a folder once; its data items are written to the directory `items`."""
    flags = f"-run=^$$ -benchtime=1ns -bench={BENCHMARK}{f'/{case}' if case else ''}"
    arguments = f"{flags} -perf-scheduling-label-filter={labels} -data-items-dir={items}"
    what = [f"WHAT=./{SUITE}/{folder}", "ETCD_LOGLEVEL=warn", f"KUBE_TEST_ARGS={arguments}"]
    command = ["make", "test-integration", *what, "KUBE_TEST_VMODULE=''", "KUBE_TIMEOUT=-timeout=7200s"]
    subprocess.run(command, cwd=checkout, check=True)


def throughput_of(items: Path) -> dict[str, float]:
    """The average throughput by case/workload of a data items file, or of those in a directory."""
    found: dict[str, float] = {}
    for path in sorted(items.glob("*.json")) if items.is_dir() else [items]:
        for item in json.loads(path.read_text())["dataItems"]:
            if item["labels"].get("Metric") == "SchedulingThroughput":
                case, workload, *_ = item["labels"]["Name"].removeprefix(f"{BENCHMARK}/").split("/")
                found[f"{case}/{workload}"] = item["data"]["Average"]
    return found


def run_moorage(config: Path, case: str) -> list[dict[str, Any]]:
    """The workloads of `moorage perf`."""
    chosen = ["--case", case] if case else []
    command = [sys.executable, "-m", "moorage", "perf", str(config), "-o", "json", *chosen]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # 1: some workload failed
    workloads: list[dict[str, Any]] = json.loads(ran.stdout)["workloads"]
    return workloads


def rows(theirs: Mapping[str, float], ours: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each workload that both have run."""
    out = []
    for one in ours:
        name = f"{one['case']}/{one['workload']}"
        if name in theirs and one["status"] == "done":
            mine, other, floor = one["pods_per_second"], theirs[name], one["threshold"] or 0
            out.append([name, *(f"{figure:,.0f}" for figure in (other, mine, mine / other, floor))])
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.peer", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of kubernetes/kubernetes")
    parser.add_argument("folder", help="of scheduler_perf, such as misc")
    parser.add_argument("--case", default="", help="NAME or NAME/WORKLOAD")
    parser.add_argument("--labels", default="performance")
    parser.add_argument("--items", type=Path, help="data items of an earlier run of kube-scheduler")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        if asked.items is None:
            run_upstream(asked.checkout, asked.folder, asked.case, asked.labels, Path(directory))
        theirs = throughput_of(asked.items or Path(directory))
    ours = run_moorage(asked.checkout / SUITE / asked.folder / "performance-config.yaml", asked.case)
    print(markdown(rows(theirs, ours), HEADINGS), end="")


if __name__ == "__main__":
    main()
