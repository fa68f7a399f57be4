"""Workloads of scheduler_perf: their operations as a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from moorage.errors import InputError
from moorage.objects.read.files import source_name
from moorage.sim.perf.scheduler_perf_file import read_workloads
from moorage.sim.timeline import Timeline
from moorage.sim.timeline.scenario import read_scenario


def read_scheduler_perf(
    timeline: Timeline, paths: Sequence[str | Path], *, case: str = "", rate: float | None = None
) -> None:
    """Read one workload of a benchmark file of scheduler_perf.

    The timeline begins with an empty cluster. The operations follow one another: barriers, sleeping and waits
    for pods take virtual time, and so does each attempt to schedule a pod. A replay has the workload's
    configuration and feature gates, unless others are given.

    Parameters
    ----------
    paths : sequence of str or Path
        The benchmark file; further ones are scenarios, whose events happen meanwhile.
    case : str, optional
        ``CASE`` or ``CASE/WORKLOAD``, where the file has several workloads.
    rate : float, optional
        Scheduling attempts per second of virtual time; by default the threshold of the workload, else 500.

    Raises
    ------
    InputError
        The file cannot be read, several workloads match, or one has an operation that is not supported.
    """
    source = source_name(str(paths[0]))
    workloads = read_workloads(str(paths[0]), case)
    if len(workloads) != 1:
        names = ", ".join(one.full_name for one in workloads)
        raise InputError(
            f"{len(workloads)} workloads; the option case names one of {names or 'them'}", source=source
        )
    (workload,) = workloads
    if workload.failure:
        raise InputError(workload.failure, source=source, obj=workload.full_name)
    if rate is not None:
        if not 0 < rate < float("inf"):
            raise InputError(f"must be a positive number, not {rate}", path="rate")
        workload = replace(workload, attempts_per_second=Fraction(str(rate)))
    timeline.operate(workload)
    if paths[1:]:
        read_scenario(timeline, paths[1:])
