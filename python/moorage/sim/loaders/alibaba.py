"""Alibaba's trace of 2020: machine learning jobs on GPUs.

The columns are those of the publisher's description (alibaba/clusterdata, cluster-trace-gpu-v2020). Files
have no heading; which one is which is told by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.errors import InputError
from moorage.kube import Resources
from moorage.kube.read.files import source_name

from .openb import GPU_MILLI, GPU_MODEL
from .trace_builder import TraceBuilder
from .trace_rows import csv_rows, number_of

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

MACHINES_2020 = ("machine", "gpu_type", "cpu", "memory", "gpu")
TASKS_2020 = ("job", "task", "instances", "status", "start", "end", "cpu", "memory", "gpu", "gpu_type")
MOST_INSTANCES = 100_000
"""Instances of a task; a task with more is left out."""


def read_alibaba_2020(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read ``pai_machine_spec.csv`` and ``pai_task_table.csv`` of 2020 into an empty timeline.

    Each instance of a task is a pod from the start to the end of the task. GPUs are in thousandths, under the
    resource of `moorage.sim.loaders.openb`.

    Raises
    ------
    InputError
        A file cannot be read, or its name is neither.
    """
    builder = TraceBuilder(timeline)
    for path in paths:
        kind = kind_of(path, ("pai_machine_spec", "pai_task_table"))
        if kind == "pai_machine_spec":
            for row in csv_rows(path, MACHINES_2020):
                cpu, memory, gpus = (number_of(row[name]) for name in ("cpu", "memory", "gpu"))
                if cpu is None or memory is None:
                    builder.note("machines left out: a field is missing or not a number")
                    continue
                room: Resources = {"cpu": f"{cpu:g}", "memory": f"{int(memory * 1024)}Mi"}
                if gpus:
                    room[GPU_MILLI] = str(int(gpus * 1000))
                builder.node(row["machine"], room, {GPU_MODEL: row["gpu_type"]} if gpus else {})
        else:
            for row in csv_rows(path, TASKS_2020):
                cpu, memory, gpu = (number_of(row[name]) for name in ("cpu", "memory", "gpu"))
                share: Resources = {GPU_MILLI: str(int(gpu * 10))} if gpu else {}
                milli = 0 if cpu is None else int(cpu * 10)
                add_task(builder, row, milli, int((memory or 0.0) * 1024), share)
    builder.finish()


def kind_of(path: str | Path, names: Sequence[str]) -> str:
    """Return which of some names the name of a file has; InputError for none."""
    for name in names:
        if name in Path(path).name:
            return name
    raise InputError(f"its name has none of {', '.join(names)}", source=source_name(str(path)))


def add_task(
    builder: TraceBuilder, row: dict[str, str], milli: int | None, mib: int | None, more: Resources
) -> None:
    """Add the instances of a task as pods.

    Parameters
    ----------
    row : dict of str to str
        With job, task, instances, start, end and perhaps gpu_type.
    milli, mib : int or None
        Requests of cpu and memory; None leaves the task out.
    more : dict of str to str
        Other requests.
    """
    start, end, count = (number_of(row[name]) for name in ("start", "end", "instances"))
    if not start or start < 0 or milli is None or mib is None:
        builder.note("tasks left out: start, cpu or memory is missing")
        return
    if not count or not 1 <= count <= MOST_INSTANCES:
        builder.note("tasks left out: the number of instances is missing")
        return
    ended = end if end and end > 0 else None
    requests: Resources = {"cpu": f"{milli}m", "memory": f"{mib}Mi", **more}
    model = row.get("gpu_type", "")
    models = (model,) if more and model not in ("", "MISC") else ()
    shape = (milli, mib, more.get(GPU_MILLI), models)
    template = builder.template(shape, requests, models=models, model_label=GPU_MODEL)
    for number in range(int(count)):
        builder.pod(f"{row['job']}-{row['task']}-{number}", template, start, ended)
