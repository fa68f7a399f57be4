"""MeasuredRun: runs a workload and measures how long its pods take.

All objects are in the scheduler's store, which feeds its informers. Only scheduling attempts, and waiting of
all pods, advance the time; creation of objects and binding take no virtual time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from moorage._core.queue.in_flight import keys_of
from moorage.answers.scheduler import Scheduler
from moorage.engine.framework.configuration import ConfigurationError
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Eviction, Failure
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.errors import InputError
from moorage.store import ObjectStore

from .attempt_clock import AttemptClock
from .measure import Meter, Timer
from .object_templates import NotBuiltError
from .operation_cursor import Operations, WorkloadFailedError, WorkloadStuckError
from .pods import Window
from .report import DEFAULT_TIE_BREAK, DONE, FAILURE, STUCK, WorkloadReport, make_report
from .scheduler_perf_file import Workload


class MeasuredRun(Policy):
    """Takes the pods of a workload from the scheduler's queue, places and binds them, and measures that.

    Parameters
    ----------
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

    time_passes = True

    def __init__(self, workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> None:
        self.clock = AttemptClock(rate)
        self.scheduler = Scheduler(
            ObjectStore(),
            config=workload.scheduler_config,
            kubernetes_version=workload.kubernetes_version,
            feature_gates=workload.feature_gates,
            tie_break=tie_break,
            clock=self.clock,
        )
        self.loop = Loop(self.scheduler.context, self)
        self.timer, self.meter = timer, Meter()
        # When the batch was popped, when pods of it were last tried, and how many of it.
        self._popped = self._since = self._tried = 0
        # What became of pods of the batch, in order; and the pods that were tried together: where they are in
        # the batch, the number of outcomes until then, and the nanoseconds. Both are noted after the batch,
        # as this is no work of the scheduler.
        self._outcomes: list[Callable[[], None]] = []
        self._spans: list[tuple[slice, int, int]] = []
        self.operations = Operations(self, self.clock, workload, self._measure)
        self.scheduler.handle.on_eviction.append(self.loop.evicted)

    def advance(self) -> None:
        """Run the workload to its end."""
        while (now := self.operations.time) < math.inf:
            self.clock.set(now)
            self.operations.happen()

    def _measure(self, window: Window | None) -> None:
        if window is None:
            self.meter.close()
        else:
            self.meter.open(window)

    def try_batch(self, limit: int) -> bool:
        """Try and bind at most so many pods; the time of the attempts passes. Return whether there were
        any."""
        loop, meter, result, measured_before = self.loop, self.meter, self.loop.result, self.meter.pods
        result.clear_run()
        self._outcomes, self._spans, began = [], [], self.timer()
        infos = loop.take(min(limit, meter.batch_limit()))
        tried = loop.attempt(infos) if infos else 0
        loop.bind()
        self.clock.attempted(tried)
        if meter.window is not None and infos:
            spent, placed = self.timer() - began, self.operations.placed
            runs, noted = self.operations.known_of(infos), 0
            measured = meter.popped(runs, self._popped - began)
            for pods, outcomes, nanoseconds in self._spans:
                before = len(placed)
                self._note(noted, outcomes)
                meter.tried_each(runs[pods], placed[before:], nanoseconds)
                noted = outcomes
            self._note(noted, len(self._outcomes))
            meter.tried(spent, measured / len(runs), meter.pods - measured_before)
        else:
            self._note(0, len(self._outcomes))
        return bool(infos or result.has_placed or result.skipped)

    def _note(self, first: int, end: int) -> None:
        """Note some outcomes of the batch."""
        for note in self._outcomes[first:end]:
            note()

    def begin(self, infos: Sequence[QueuedPodInfo]) -> int:
        self._popped = self._since = self.timer()
        self._tried = 0
        return len(infos)

    def on_tried(self, number: int) -> None:
        now = self.timer()
        self._spans.append((slice(self._tried, number), len(self._outcomes), now - self._since))
        self._since, self._tried = now, number

    def on_placed(self, infos: Sequence[QueuedPodInfo], nodes: Sequence[str]) -> None:
        self._outcomes.append(partial(self.operations.note_placements, keys_of(infos), nodes))

    def on_failed(self, infos: Sequence[QueuedPodInfo], failures: Sequence[Failure]) -> None:
        self._outcomes.append(partial(self.operations.note_failures, keys_of(infos), failures))

    def on_evicted(self, evictions: Mapping[str, Eviction]) -> None:
        self.operations.note_evictions(evictions)


def run_workload(
    workload: Workload,
    rate: Fraction | None = None,
    timer: Timer = time.perf_counter_ns,
    tie_break: str | None = None,
) -> WorkloadReport:
    """Run a workload from an empty cluster.

    Parameters
    ----------
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
        status = f"{FAILURE}: {error} not built yet"
    except WorkloadStuckError as error:
        status = f"{STUCK}: {error}"
    except WorkloadFailedError as error:
        status = f"{FAILURE}: {error}"
    finally:
        run.meter.close()
    return make_report(workload, run.meter, status, tie_break=tie_break, **run.operations.counts())
