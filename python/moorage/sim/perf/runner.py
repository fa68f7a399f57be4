"""Runs workloads and reports their results."""

from __future__ import annotations

import time
from fractions import Fraction

from moorage.errors import InputError, NotBuiltError
from moorage.framework.configuration import ConfigurationError

from .execute import execute
from .loop import Run, WorkloadFailedError
from .measure import Meter, Timer
from .report import DEFAULT_TIE_BREAK, DONE, WorkloadReport, make_report
from .scheduler_perf_file import Workload

DEFAULT_RATE = 500


def run_workload(
    workload: Workload,
    rate: Fraction | None = None,
    timer: Timer = time.perf_counter_ns,
    tie_break: str | None = None,
) -> WorkloadReport:
    """Run a workload from an empty cluster.

    Parameters
    ----------
    workload : Workload
    rate : Fraction, optional
        Scheduling attempts per second of virtual time; by default the workload's threshold, else 500.
    timer : callable
        Nanoseconds, for what is measured.
    tie_break : str, optional
        As in `Scheduler`. By default "go-heap", and "random" for a workload that leaves pods without a node
        that way: until v1.34 kube-scheduler chose at random, and some workloads rely on it.

    Returns
    -------
    WorkloadReport
        With the status ``failed: …`` where the workload uses something that is not built yet, or cannot come
        to its end.

    Raises
    ------
    InputError
        For objects that are wrong, and bad scheduler configurations.
    """
    if workload.unbuilt:
        return make_report(workload, Meter(), _not_built(workload.unbuilt))
    rate = rate or Fraction(str(workload.threshold or DEFAULT_RATE))
    if tie_break is not None:
        return _run(workload, rate, timer, tie_break)
    report = _run(workload, rate, timer, DEFAULT_TIE_BREAK)
    if not (report.failed and report.unschedulable):
        return report
    by_chance = _run(workload, rate, timer, "random")
    return report if by_chance.failed else by_chance


def _run(workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> WorkloadReport:
    run = _start(workload, rate, timer, tie_break)
    status = DONE
    try:
        execute(run)
    except NotBuiltError as error:
        status = _not_built(str(error).removeprefix("not built yet: "))
    except WorkloadFailedError as error:
        status = f"failed: {error}"
    finally:
        run.meter.close()
    return make_report(workload, run.meter, status, tie_break=tie_break, **run.counts())


def _not_built(what: str) -> str:
    return f"failed: {what} not built yet"


def _start(workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> Run:
    try:
        return Run(workload, rate, timer, tie_break)
    except ConfigurationError as error:
        source = str(workload.scheduler_config)
        raise InputError(error.message, source=source, path=error.path) from None
