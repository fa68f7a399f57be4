"""Microsoft's Philly trace of 2017: deep learning jobs on GPUs.

The files are ``cluster_job_log`` (JSON) and ``cluster_machine_list`` (CSV) of msr-fiddle/philly-traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import InputError
from moorage.kube.read.decode import UNREADABLE
from moorage.kube.read.files import read_file, source_name

from .trace_builder import TraceBuilder
from .trace_rows import csv_rows, list_of, map_of, number_of

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

GPU = "nvidia.com/gpu"


def read_philly(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read a log of jobs and a list of machines into an empty timeline.

    A job is one pod for each machine of its first attempt, with as many GPUs as it had there, from its
    submission to the end of its last attempt. Where they ran is recorded as their binding. The trace has no
    requests for cpu and memory. A machine has as many GPUs as the list says, or as a job had there at once.

    Raises
    ------
    InputError
        A file cannot be read, or the log is not a list of jobs.
    """
    builder, jobs, machines = TraceBuilder(timeline), list[dict[str, Any]](), dict[str, int]()
    for path in paths:
        text = read_file(str(path)) if "machine" not in Path(path).name else b""
        if text.lstrip().startswith((b"[", b"{")):
            try:
                jobs += msgspec.json.decode(text, type=list[dict[str, Any]])
            except UNREADABLE as error:
                raise InputError(f"is not a list of jobs: {error}", source=source_name(str(path))) from None
        else:
            for row in csv_rows(path):
                _read_machine(builder, row, machines)
    for job in jobs:
        _count_used(builder, job, machines)
    for name, gpus in machines.items():
        builder.node(name, {"cpu": "64", "memory": "512Gi", GPU: str(gpus)})
    builder.finish()
    starts = [time for job in jobs if (time := _time(job.get("submitted_time"))) is not None]
    first = min(starts, default=0.0)
    for job in jobs:
        _add_job(builder, job, first)


def _read_machine(builder: TraceBuilder, row: dict[str, str], machines: dict[str, int]) -> None:
    """Read a machine; in a list that pandas has written, an index comes first."""
    values = [value for name, value in row.items() if name]
    gpus = number_of(values[1]) if len(values) > 1 else None
    if gpus is None:
        builder.note("machines left out: the number of GPUs is missing")
        return
    machines[values[0]] = max(int(gpus), machines.get(values[0], 0))


def _count_used(builder: TraceBuilder, job: dict[str, Any], machines: dict[str, int]) -> None:
    """Let machines have as many GPUs as a job had there; the publisher's list has too few for some."""
    for attempt in map(map_of, list_of(job.get("attempts"))):
        for part in map(map_of, list_of(attempt.get("detail"))):
            name, used = str(part.get("ip")), len(list_of(part.get("gpus")))
            if name in machines and used > machines[name]:
                machines[name] = used
                builder.note("machines with more GPUs in use than listed: they have as many as were in use")


def _add_job(builder: TraceBuilder, job: dict[str, Any], first: float) -> None:
    submitted, attempts = _time(job.get("submitted_time")), list_of(job.get("attempts"))
    if submitted is None:
        builder.note("jobs left out: no time of submission")
        return
    attempts = list(map(map_of, attempts))
    detail = list_of(attempts[0].get("detail")) if attempts else None
    if not detail:
        builder.note("jobs left out: they were never run")
        return
    ended = _time(attempts[-1].get("end_time"))
    began = _time(attempts[0].get("start_time"))
    for number, part in enumerate(map(map_of, detail)):
        gpus = len(list_of(part.get("gpus")))
        template = builder.template(gpus, {GPU: str(gpus)})
        name = f"{job.get('jobid')}-{number}"
        added = builder.pod(name, template, submitted - first, None if ended is None else ended - first)
        if added and began is not None and part.get("ip"):
            builder.bind(name, max(began, submitted) - first, str(part["ip"]))


def _time(text: Any) -> float | None:
    """Return the seconds of a time such as ``2017-10-09 07:01:59 PDT``, its zone left out; None for none."""
    try:
        return datetime.fromisoformat(str(text)[:19] + "+00:00").timestamp()
    except ValueError:
        return None
