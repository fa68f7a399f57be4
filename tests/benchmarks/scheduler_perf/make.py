"""Workloads from as little as a test wants to say."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from bench.scheduler_perf import Workload, read_workloads
from bench.scheduler_perf.measured_run import MeasuredRun

DATA = Path(__file__).parents[2] / "data/scheduler_perf/excerpt/performance-config.yaml"

POD = """\
kind: Pod
metadata: {generateName: pod-}
spec:
  containers:
  - {name: c, resources: {requests: {cpu: 100m, memory: 500Mi}}}
"""
BIG = POD.replace("100m", "'3'")
NODE = """\
kind: Node
metadata: {generateName: node-}
status: {capacity: {pods: "110", cpu: "4", memory: 32Gi}}
"""


def write(directory: Path, *ops: dict[str, Any], files: dict[str, str] | None = None, **workload: Any) -> str:
    """A file with one case and one workload, with a template for pods and one for nodes."""
    for name, text in ({"pod.yaml": POD, "node.yaml": NODE} | (files or {})).items():
        (directory / name).write_text(text)
    case = workload.pop("case", {})
    document = [
        {
            "name": "Case",
            "defaultPodTemplatePath": "pod.yaml",
            "workloadTemplate": list(ops),
            "workloads": [{"name": "small"} | workload],
        }
        | case
    ]
    path = directory / "perf.yaml"
    path.write_bytes(msgspec.json.encode(document))  # JSON is YAML
    return str(path)


def workload(directory: Path, *ops: dict[str, Any], **settings: Any) -> Workload:
    """The workload of such a file."""
    return read_workloads(write(directory, *ops, **settings))[0]


def timer() -> Callable[[], int]:
    """A millisecond passes between two looks at it."""
    ticks = count(step=1_000_000)
    return lambda: next(ticks)


def run_of(
    one: Workload,
    rate: int = 500,
    before: Callable[[MeasuredRun], None] = lambda run: None,
    tie_break: str = "first",
) -> MeasuredRun:
    """A workload that has run."""
    run = MeasuredRun(one, Fraction(rate), timer(), tie_break)
    before(run)
    try:
        run.advance()
    finally:
        run.meter.close()
    return run


def run_ops(directory: Path, *ops: dict[str, Any], rate: int = 500, **settings: Any) -> MeasuredRun:
    """The same of operations."""
    return run_of(workload(directory, *ops, **settings), rate)


def placements(run: MeasuredRun) -> dict[str, str]:
    """Pod name to node, of the pods that are on one."""
    return {
        f"{one.template.metadata.namespace}/{one.name(number)}": run.scheduler.table.row_name(row)
        for one in run.operations.runs
        for number, row in enumerate(one.state.tolist())
        if row >= 0
    }


def nodes(count: int, **rest: Any) -> dict[str, Any]:
    return {"opcode": "createNodes", "count": count} | rest


def pods(count: int, **rest: Any) -> dict[str, Any]:
    return {"opcode": "createPods", "count": count} | rest


def churn(*paths: str, mode: str = "create", **rest: Any) -> dict[str, Any]:
    return {"opcode": "churn", "mode": mode, "templatePaths": list(paths)} | rest
