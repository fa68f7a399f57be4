"""The main loop of a workload: the scheduler and its queue in virtual time.

All objects are in the scheduler's store, which feeds its informers. Only scheduling attempts, and waiting of
all pods, advance the time; creation of objects and binding take no virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any, cast

import numpy as np

from moorage._core.base.watch_events import keys_of
from moorage._core.decide.pod_batch import PodBatch
from moorage.errors import InputError, NotBuiltError, located
from moorage.framework.configuration import ConfigurationError
from moorage.objects import AnyGroup, Pod
from moorage.queue import QueuedPodInfo
from moorage.scheduler import Failure, Scheduler, ScheduleResult
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Eviction
from moorage.scheduler.groups.group_attempt import GroupResult
from moorage.scheduler.groups.group_batch import GroupBatch
from moorage.scheduler.runs import Run as SchedulerRun
from moorage.store import ObjectStore

from .measure import Meter, Timer
from .object_templates import BASE_POD, ObjectTemplate, read_template
from .ops import WorkloadFailedError, WorkloadStuckError
from .pods import FAILED, GATED, GONE, NEW, PodNames, PodRun
from .report import DEFAULT_TIE_BREAK, DONE, FAILURE, STUCK, WorkloadReport, make_report
from .scheduler_perf_file import Workload
from .virtual_time import VirtualTime
from .workload_cluster import SimulatedCluster

TIMEOUT = 600
"""Seconds of virtual time that an operation may wait (scheduler_perf, executor.go)."""
MOST_TRIES = 16
"""Attempts of each pod without a node, and no change of the cluster in between, after which waiting ends."""
DEFAULT_RATE = 500
"""Scheduling attempts per second of virtual time, for a workload without a threshold."""
MANY = 64
"""Equal pods in a row from which on they are placed by their template."""

Way = Callable[[Engine, ScheduleResult, Sequence[QueuedPodInfo], range], int]


class Run:
    """A running workload.

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
    runs : list of PodRun
        All pods that were created, deleted ones included.
    known : dict of str to (PodRun, int)
        By ``namespace/name`` of a pod, its run and its index in the run.
    init_pods : int
        Number of pods that were created and not measured.
    ticks : int
        Number of repetitions of churn operations.
    placed : callable or None
        Called with the run and the index of each placed pod.
    """

    def __init__(self, workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> None:
        self.workload, self.timer = workload, timer
        self.time = VirtualTime(rate)
        self.scheduler = Scheduler(
            ObjectStore(),
            config=workload.scheduler_config,
            feature_gates=workload.feature_gates,
            tie_break=tie_break,
            clock=lambda: self.time.seconds,
        )
        self.cluster = SimulatedCluster(self.scheduler)
        self._read = cache(read_template)
        self.names = PodNames()
        self.meter = Meter()
        self.runs: list[PodRun] = []
        self.known: dict[str, tuple[PodRun, int]] = {}
        self.attempts = Attempts(self)
        self.init_pods = 0
        self.ticks = 0
        self.placed: Callable[[PodRun, int], None] | None = None

    def execute(self) -> None:
        """Execute the operations of the workload in order.

        Raises
        ------
        InputError
            An operation is invalid; names file and operation.
        WorkloadFailedError
            An operation cannot finish.
        """
        for number, op in enumerate(self.workload.ops):
            obj = f"{self.workload.full_name}: workloadTemplate[{number}]"
            with located(source=self.workload.source, obj=obj):
                op.execute(self, number)

    def template(self, path: str, params: Mapping[str, Any], count: int) -> ObjectTemplate:
        """Return a template file with its parameters.

        Parameters
        ----------
        path : str
            Path relative to the file of the workload; "" for the default pod of scheduler_perf.
        params : mapping
            Values of the names in the template.
        count : int
            Number of objects made from the template.

        Returns
        -------
        ObjectTemplate

        Raises
        ------
        InputError
            The file cannot be read, or is not a template.
        """
        text = self._read(self.workload.path(path)) if path else BASE_POD
        return ObjectTemplate(text, params, count)

    # ---- pods ----------------------------------------------------------------------------------------------

    def add(self, *runs: PodRun) -> None:
        """Create the pods of runs in the cluster.

        Parameters
        ----------
        *runs : PodRun
            The runs.

        Raises
        ------
        WorkloadFailedError
            A pod names an unknown profile.
        """
        for run in runs:
            name = run.template.spec.scheduler_name
            if name not in self.scheduler.engines:
                raise WorkloadFailedError(f"no profile of the name {name}")
            self.runs.append(run)
            self.init_pods += 0 if self.meter.measures(run) else len(run)
            for number in range(len(run)):
                self.known[run.key(number)] = run, number
        self.cluster.create_many(pod for run in runs for pod in run.pods())
        for run in runs:
            framework = self.scheduler.engines[run.template.spec.scheduler_name].framework
            first = self.cluster.with_claims(run) if run.template.spec.resource_claims else run.template
            if framework.run_pre_enqueue_plugins(first) is not None:
                run.state[:] = GATED

    def update_pod(self, pod: Pod) -> None:
        """Replace a pod, which may remove its scheduling gates.

        Parameters
        ----------
        pod : Pod
            The new state of the pod.

        Raises
        ------
        InputError
            There is no pod of this name.
        """
        self.cluster.update_pod(pod)
        run, number = self.known[pod.key]
        framework = self.scheduler.engines[pod.spec.scheduler_name].framework
        if run.state[number] == GATED and framework.run_pre_enqueue_plugins(pod) is None:
            run.state[number] = NEW

    def find(self, namespaces: Sequence[str], labels: dict[str, str]) -> Iterator[PodRun]:
        """Iterate over runs of pods.

        Parameters
        ----------
        namespaces : sequence of str
            Namespaces of the pods; empty for all.
        labels : dict of str to str
            Labels that the pods have.

        Yields
        ------
        PodRun
            A run of matching pods.
        """
        for run in self.runs:
            if run.matches(labels) and (not namespaces or run.template.metadata.namespace in namespaces):
                yield run

    # ---- the loop ------------------------------------------------------------------------------------------

    def until(self, done: Callable[[], bool], timeout: Fraction | int = TIMEOUT) -> None:
        """Schedule and process events until a condition holds.

        Parameters
        ----------
        done : callable
            The condition.
        timeout : Fraction or int
            Seconds of virtual time.

        Raises
        ------
        WorkloadStuckError
            The condition does not hold in time, or can never hold, and pods fit nowhere. Groups that fail
            without a plugin's rejection are tried again at once (SchedulerPopFromBackoffQ), so waiting ends
            after `MOST_TRIES` attempts in vain.
        WorkloadFailedError
            The same, and all pods have nodes.
        """
        deadline, failures, victims = self.time.now + timeout, self.attempts.failures, self.attempts.victims
        while True:
            self.time.run_due()
            self.scheduler.queue.run_periodic(self.time.seconds)
            if done():
                return
            if self.time.now >= deadline:
                raise self._no_end(f"timed out after {float(timeout):g} s")
            if self._schedule_batch():
                if self.attempts.placed or victims != self.attempts.victims or self._awaits_events():
                    failures, victims = self.attempts.failures, self.attempts.victims
                elif self._has_tried_enough(self.attempts.failures - failures):
                    raise self._no_end(f"nothing has changed in {MOST_TRIES} attempts")
                continue
            coming = self._next_event()
            if coming is None:
                raise self._no_end("nothing is left to happen")
            self.time.now = min(coming, deadline)

    def sleep(self, seconds: Fraction) -> None:
        """Let virtual time pass while scheduling continues.

        Parameters
        ----------
        seconds : Fraction
            Virtual time.
        """
        end = self.time.now + seconds
        self.time.at(end, lambda: None)
        self.until(lambda: self.time.now >= end, seconds + 1)

    def _awaits_events(self) -> bool:
        """Whether an event of the workload or a binding cycle comes."""
        return self.time.next_event() is not None or self.scheduler.bindings.next_step() is not None

    def _has_tried_enough(self, failures: int) -> bool:
        return failures >= MOST_TRIES and failures >= MOST_TRIES * sum(run.count(FAILED) for run in self.runs)

    def _next_event(self) -> Fraction | None:
        """Time of the next event of the workload, the queue or a binding cycle; None if there is none."""
        queue, binding = self.scheduler.queue.next_event(), self.scheduler.bindings.next_step()
        others = [Fraction(when) for when in (queue, binding) if when is not None]
        coming = [self.time.next_event(), *others]
        return min((when for when in coming if when is not None), default=None)

    def is_interrupted(self) -> bool:
        """Whether an event of the workload or the queue is due."""
        time = self.time
        return time.has_come(time.next_event()) or time.has_come(self.scheduler.queue.next_event())

    def _no_end(self, text: str) -> WorkloadFailedError:
        waiting = self.waiting()
        return WorkloadStuckError(text + waiting) if waiting else WorkloadFailedError(text)

    def waiting(self) -> str:
        """Return the number of pods that fit nowhere, and why, as the end of a message; "" without such."""
        pods = sum(run.count(FAILED) for run in self.runs)
        failure = self.attempts.failure
        if not pods or failure is None:
            return ""
        return f": {pods} pods fit nowhere ({failure.message}){self.cluster.devices.unreachable()}"

    def _schedule_batch(self) -> bool:
        """Pop and schedule pods up to the next event; returns whether there were any."""
        limit = min(self.time.attempts_until(self._next_event()), self.meter.batch_limit())
        any_popped = self.attempts.next_batch(max(1, limit))
        if self.placed is not None:
            for run, number in self.attempts.placed:
                if run.state[number] >= 0:
                    self.placed(run, number)
        return any_popped

    def counts(self) -> dict[str, int | float]:
        """Return the fields of the report that are not measured."""
        return {
            "nodes": self.cluster.nodes,
            "init_pods": self.init_pods,
            "unschedulable": sum(run.count(FAILED) for run in self.runs),
            "churn_ticks": self.ticks,
            "preemptors": self.attempts.preemptors,
            "victims": self.attempts.victims,
            "virtual_seconds": round(self.time.seconds, 6),
        }


class Attempts(SchedulerRun):
    """Takes the pods of a workload from the scheduler's queue, places and binds them.

    Attributes
    ----------
    preemptors, victims : int
        Number of attempts that evicted pods, and of evicted pods.
    failures : int
        Number of attempts that failed.
    placed : list of (PodRun, int)
        Runs and indices of the pods that the last batch placed.
    failure : Failure or None
        Why the last failed pod was not placed.
    """

    defers_failed_groups = False  # backoff limits the attempts, because virtual time passes

    def __init__(self, run: Run) -> None:
        super().__init__(run.scheduler)
        self.run = run
        self.preemptors = self.victims = self.failures = 0
        self.placed: list[tuple[PodRun, int]] = []
        self.failure: Failure | None = None
        self._known: list[tuple[PodRun, int]] = []  # run of each popped pod, and its index in the run
        self._template_at = -1  # index in the batch, see `_next_template`
        self._counted = 0  # attempts of the batch by which the time has advanced
        run.scheduler.handle.on_eviction.append(self._evicted)

    def next_batch(self, limit: int) -> bool:
        """Pop pods and try to schedule them. The time advances with the attempts.

        Parameters
        ----------
        limit : int
            Maximum number of pods.

        Returns
        -------
        bool
            Whether any pod was popped.
        """
        meter, began, measured = self.run.meter, self.run.timer(), 0
        self.placed, result, self._counted, self._template_at = [], self.result, 0, -1
        for part in (result.placements, result.unschedulable, result.evicted, result.skipped):
            part.clear()
        self.resume(self.run.time.seconds)
        infos, pods = self.take(limit), meter.pods
        self._known = list(map(self.run.known.__getitem__, keys_of([info.pod for info in infos])))
        if meter.window is not None and infos:
            runs = {pod_run for pod_run, _ in self._known}
            counted = {pod_run for pod_run in runs if meter.measures(pod_run)}
            measured = sum([pod_run in counted for pod_run, _ in self._known])
            meter.queue_ns += (self.run.timer() - began) * measured // len(infos)
            meter.queued += measured
        attempts = self.attempt(infos) if infos else 0
        self.bind()
        if meter.window is not None and infos:
            meter.tried(self.run.timer() - began, measured / len(infos), meter.pods - pods)
        self.run.time.attempted(attempts - self._counted)
        return bool(infos or self.placed or self.result.skipped)

    def _follow_up(self, batch: PodBatch, infos: Sequence[QueuedPodInfo], at: int) -> bool:
        if self._placed or not super()._follow_up(batch, infos, at):  # placed pods are bound first
            return False
        self.run.time.attempted(at - self._counted)
        self._counted = at
        return not self.run.is_interrupted()

    def place(
        self, engine: Engine, result: ScheduleResult, infos: Sequence[QueuedPodInfo], pods: range
    ) -> int:
        at, evicted = pods.start, self.victims
        while at < pods.stop and evicted == self.victims:
            may_fit = pods.stop - at >= MANY and not self._follows_eviction(infos[at])
            stop = self._equal_until(infos, at, pods.stop) if may_fit else at
            if stop >= at + MANY:
                at += self._by_template(infos, at, stop)
            else:
                stop = self._next_template(infos, max(at + 1, stop), pods.stop)
                at += self._timed(super().place, engine, result, infos, range(at, stop))
        return at - pods.start

    def _follows_eviction(self, info: QueuedPodInfo) -> bool:
        """Whether pods were evicted for the pod of the same priority that was tried last."""
        return self._has_evicted and (info.pod.spec.priority or 0) == self._preemptor_priority

    def _each(
        self, engine: Engine, result: ScheduleResult, infos: Sequence[QueuedPodInfo], pods: range
    ) -> int:
        return self._timed(super()._each, engine, result, infos, pods)

    def _next_template(self, infos: Sequence[QueuedPodInfo], at: int, end: int) -> int:
        """The first index from `at` on where many equal pods may begin."""
        if end - at < MANY:
            return end
        if self._template_at < at:
            self._template_at = next(
                filter(partial(self._may_be_many, infos), range(at, len(infos))), len(infos)
            )
        return min(self._template_at, end)

    def _may_be_many(self, infos: Sequence[QueuedPodInfo], at: int) -> bool:
        """Whether a pod equals its template, and its run has many pods."""
        pod_run, _ = self._known[at]
        return len(pod_run) >= MANY and pod_run.is_fresh(infos[at].pod)

    def _equal_until(self, infos: Sequence[QueuedPodInfo], at: int, end: int) -> int:
        """The end of the run of pods from `at` on that equal their template and have consecutive indices."""
        pod_run, first = self._known[at]
        for stop in range(at, end):
            known_run, number = self._known[stop]
            if known_run is not pod_run or number != first + stop - at:
                return stop
            if not pod_run.is_fresh(infos[stop].pod):
                return stop
        return end

    def _by_template(self, infos: Sequence[QueuedPodInfo], at: int, stop: int) -> int:
        """Place equal pods by their template; returns the number of attempts."""
        pod_run, number = self._known[at]
        meter, timer = self.run.meter, self.run.timer
        began = timer()
        done = self.scheduler.schedule_by_template(pod_run.template, stop - at, pod_run.first + number)
        placed = len(done)
        meter.scheduled(pod_run, placed, began, timer())
        pod_run.state[number : number + placed] = done.rows
        self.placed += self._known[at : at + placed]
        keys, nodes = keys_of([info.pod for info in infos[at : at + placed]]), cast(list[str], done.nodes)
        super()._note_placements(keys, nodes)
        self._await_binding(keys, infos[at : at + placed])
        if done.failure is None:
            return placed
        # Without evictions for the first pod that failed, nothing has changed for the pods after it.
        failed = infos[at + placed : at + placed + 1 if done.failure.nominated_node else stop]
        for info in failed:
            self._failed(info, done.failure)
        return placed + len(failed)

    def _timed(
        self, place: Way, engine: Engine, result: ScheduleResult, infos: Sequence[QueuedPodInfo], pods: range
    ) -> int:
        """Try some pods of a batch; returns the number of attempts."""
        before, began = len(self.placed), self.run.timer()
        attempts = place(engine, result, infos, pods)
        spent, tried = self.run.timer() - began, self._known[pods.start : pods.start + attempts]
        self.run.meter.tried_each(tried, self.placed[before:], spent)
        return attempts

    def place_unit(
        self, group: AnyGroup | None, pods: Sequence[Pod], scheduled: Sequence[Pod]
    ) -> GroupResult:
        pod_run, began = self.run.known[pods[0].key][0], self.run.timer()
        done = super().place_unit(group, pods, scheduled)
        placed = int(np.count_nonzero(done.rows >= 0))
        self.run.meter.scheduled(pod_run, placed, began, self.run.timer())
        return done

    def place_units(self, batch: GroupBatch, first: int) -> int:
        began = self.run.timer()
        end = super().place_units(batch, first)
        placed = self._known[batch.begin(first) : batch.begin(end)]
        self.run.meter.tried_each(placed, placed, self.run.timer() - began)
        return end

    def _note_placements(self, keys: Sequence[str], nodes: Sequence[str]) -> None:
        placed, rows = list(map(self.run.known.__getitem__, keys)), map(self.scheduler.table.find_row, nodes)
        for (pod_run, number), row in zip(placed, rows, strict=True):
            assert row is not None
            pod_run.state[number] = row
        self.placed += placed
        super()._note_placements(keys, nodes)

    def _failed(self, info: QueuedPodInfo, failure: Failure) -> None:
        pod_run, number = self.run.known[info.pod.key]
        pod_run.state[number] = FAILED
        self.failure = failure
        self.failures += 1
        self.preemptors += bool(failure.nominated_node)
        super()._failed(info, failure)

    def _note_evictions(self, keys: Sequence[str], evictions: Sequence[Eviction]) -> None:
        super()._note_evictions(keys, evictions)
        self.victims += len(keys)
        for pod_run, number in map(self.run.known.__getitem__, keys):
            pod_run.state[number] = GONE


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
    if workload.unbuilt:
        return make_report(workload, Meter(), _not_built(workload.unbuilt))
    rate = rate or Fraction(str(workload.threshold or DEFAULT_RATE))
    if tie_break is not None:
        return _run(workload, rate, timer, tie_break)
    report = _run(workload, rate, timer, DEFAULT_TIE_BREAK)
    if report.status == DONE or not report.unschedulable:
        return report
    by_chance = _run(workload, rate, timer, "random")
    return by_chance if by_chance.status == DONE else report


def _run(workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> WorkloadReport:
    try:
        run = Run(workload, rate, timer, tie_break)
    except ConfigurationError as error:
        source = str(workload.scheduler_config)
        raise InputError(error.message, source=source, path=error.path) from None
    status = DONE
    try:
        run.execute()
    except NotBuiltError as error:
        status = _not_built(str(error).removeprefix("not built yet: "))
    except WorkloadStuckError as error:
        status = f"{STUCK}: {error}"
    except WorkloadFailedError as error:
        status = f"{FAILURE}: {error}"
    finally:
        run.meter.close()
    return make_report(workload, run.meter, status, tie_break=tie_break, **run.counts())


def _not_built(what: str) -> str:
    return f"{FAILURE}: {what} not built yet"
