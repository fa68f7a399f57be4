"""MeasuredRun: runs a workload and measures how long its pods take.

All objects are in the scheduler's store, which feeds its informers. Only scheduling attempts, and waiting of
all pods, advance the time; creation of objects and binding take no virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from moorage.errors import InputError, NotBuiltError
from moorage.facade import Scheduler
from moorage.framework.configuration import ConfigurationError
from moorage.objects import AnyGroup, Pod
from moorage.queue import QueuedPodInfo
from moorage.scheduler import ScheduleResult
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.groups.group_attempt import GroupResult
from moorage.scheduler.groups.group_batch import GroupBatch
from moorage.scheduler.runs import ALL
from moorage.sim.virtual_time.attempt_clock import AttemptClock
from moorage.sim.virtual_time.virtual_run import VirtualRun
from moorage.store import ObjectStore

from .measure import Meter, Timer
from .operation_cursor import Operations, WorkloadFailedError, WorkloadStuckError
from .pods import PodRun, Window
from .report import DEFAULT_TIE_BREAK, DONE, FAILURE, STUCK, WorkloadReport, make_report
from .scheduler_perf_file import Workload

Way = Callable[[Engine, ScheduleResult, list[QueuedPodInfo], range], int]


class MeasuredRun(VirtualRun):
    """Takes the pods of a workload from the scheduler's queue, places and binds them, and measures that.

    Parameters
    ----------
    workload : Workload
        The workload.
    rate : Fraction
        Scheduling attempts per second of virtual time.
    timer : callable
        Returns nanoseconds of real time, for measurements.
    tie_break : str
        Choice among nodes of equal score; see `Scheduler`.

    Attributes
    ----------
    operations : Operations
    meter : Meter
    """

    clock: AttemptClock
    operations: Operations

    def __init__(self, workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> None:
        clock = AttemptClock(rate)
        scheduler = Scheduler(
            ObjectStore(),
            config=workload.scheduler_config,
            kubernetes_version=workload.kubernetes_version,
            feature_gates=workload.feature_gates,
            tie_break=tie_break,
            clock=clock,
        )
        super().__init__(scheduler, clock)
        self.timer, self.meter = timer, Meter()
        self._infos: Sequence[QueuedPodInfo] = []  # the batch
        self._known: list[tuple[PodRun, int]] = []  # see `_runs`
        self._began = self._popping = 0  # of the batch: when, and how long its pop took
        # Pods of the batch that were tried together: where they are in the batch, where the placed ones are
        # in `Operations.placed` (None: all were placed), and the nanoseconds. They are counted after the
        # batch, as this is no work of the scheduler.
        self._spans: list[tuple[slice, slice | None, int]] = []
        self.operations = Operations(self, clock, workload, self._measure)
        scheduler.handle.on_eviction.append(self.evicted)

    def _measure(self, window: Window | None) -> None:
        if window is None:
            self.meter.close()
        else:
            self.meter.open(window)

    def happen(self, is_due: bool) -> None:
        self.operations.happen()

    def try_batch(self, limit: int = ALL) -> bool:
        meter, pods = self.meter, self.meter.pods
        limit = min(limit, meter.batch_limit())
        self._infos, self._known, self._spans = [], [], []
        self._began = self.timer()
        any_popped = super().try_batch(limit)
        if meter.window is not None and self._infos:
            spent, runs, placed = self.timer() - self._began, self._runs(), self.operations.placed
            measured = meter.popped(runs, self._popping)
            for tried, part, nanoseconds in self._spans:
                each = runs[tried]
                meter.tried_each(each, each if part is None else placed[part], nanoseconds)
            meter.tried(spent, measured / len(runs), meter.pods - pods)
        return any_popped

    def attempt(self, infos: Sequence[QueuedPodInfo]) -> int:
        self._infos = infos
        if self.meter.window is not None:
            self._popping = self.timer() - self._began
        return super().attempt(infos)

    def _runs(self) -> list[tuple[PodRun, int]]:
        """The run of each pod of the batch, and its index in the run."""
        if not self._known:
            self._known = self.operations.known_of(self._infos)
        return self._known

    def place(self, engine: Engine, result: ScheduleResult, infos: list[QueuedPodInfo], pods: range) -> int:
        return self._timed(super().place, engine, result, infos, pods)

    def _timed(
        self, place: Way, engine: Engine, result: ScheduleResult, infos: list[QueuedPodInfo], pods: range
    ) -> int:
        """Try some pods of a batch; returns the number of attempts."""
        placed, first = self.operations.placed, pods.start
        before, began = len(placed), self.timer()
        attempts = place(engine, result, infos, pods)
        spent = self.timer() - began
        self._spans.append((slice(first, first + attempts), slice(before, len(placed)), spent))
        return attempts

    def place_unit(
        self, group: AnyGroup | None, pods: Sequence[Pod], scheduled: Sequence[Pod]
    ) -> GroupResult:
        pod_run, began = self.operations.known[pods[0].key][0], self.timer()
        done = super().place_unit(group, pods, scheduled)
        placed = int(np.count_nonzero(done.rows >= 0))
        self.meter.scheduled(pod_run, placed, began, self.timer())
        return done

    def place_units(self, batch: GroupBatch, first: int) -> int:
        began = self.timer()
        end = super().place_units(batch, first)
        spent = self.timer() - began
        self._spans.append((slice(batch.begin(first), batch.begin(end)), None, spent))
        return end


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
        The workload.
    rate : Fraction, optional
        Scheduling attempts per second of virtual time; by default the workload's threshold, else 500.
    timer : callable
        Returns nanoseconds of real time, for measurements.
    tie_break : str, optional
        Choice among nodes of equal score; see `Scheduler`. By default "go-heap", and "random" for a workload
        in which "go-heap" leaves pods without a node: until v1.34 kube-scheduler chose at random, and some
        workloads rely on it.

    Returns
    -------
    WorkloadReport
        Its status is ``failed: …`` if the workload uses an unsupported feature or cannot finish.

    Raises
    ------
    InputError
        An object or the scheduler configuration is invalid.
    """
    if workload.failure:
        return make_report(workload, Meter(), f"{FAILURE}: {workload.failure}")
    rate = rate or workload.rate
    if tie_break is not None:
        return _run(workload, rate, timer, tie_break)
    report = _run(workload, rate, timer, DEFAULT_TIE_BREAK)
    if report.status == DONE or not report.unschedulable:
        return report
    by_chance = _run(workload, rate, timer, "random")
    return by_chance if by_chance.status == DONE else report


def _run(workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> WorkloadReport:
    try:
        run = MeasuredRun(workload, rate, timer, tie_break)
    except ConfigurationError as error:
        source = str(workload.scheduler_config)
        raise InputError(error.message, source=source, path=error.path) from None
    status = DONE
    try:
        run.advance()
    except NotBuiltError as error:
        status = _not_built(str(error).removeprefix("not built yet: "))
    except WorkloadStuckError as error:
        status = f"{STUCK}: {error}"
    except WorkloadFailedError as error:
        status = f"{FAILURE}: {error}"
    finally:
        run.meter.close()
    return make_report(workload, run.meter, status, tie_break=tie_break, **run.operations.counts())


def _not_built(what: str) -> str:
    return f"{FAILURE}: {what} not built yet"
