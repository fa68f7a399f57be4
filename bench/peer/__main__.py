"""kube-scheduler's scheduler_perf and moorage on one file: `python -m bench.peer CHECKOUT FOLDER`."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.scheduler_perf import WorkloadReport, read_workloads, run_workload
from bench.scheduler_perf.report import DONE
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


def rows(theirs: Mapping[str, float], ours: Iterable[WorkloadReport]) -> list[list[str]]:
    """A row for each workload that both have run."""
    out = []
    for report in ours:
        name, mine = f"{report.case}/{report.workload}", report.pods_per_second
        if name in theirs and report.status == DONE and mine is not None:
            other, floor = theirs[name], report.threshold or 0
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
    config = asked.checkout / SUITE / asked.folder / "performance-config.yaml"
    ours = map(run_workload, read_workloads(str(config), asked.case))
    print(markdown(rows(theirs, ours), HEADINGS), end="")


if __name__ == "__main__":
    main()
