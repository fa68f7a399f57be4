"""The main loop of a workload: the scheduler and its queue in virtual time.

All objects are in the scheduler's store, from which its informers are fed. Time passes only for
attempts and while all pods wait; creating objects and binding take none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from moorage.errors import InputError, NotBuiltError, located
from moorage.framework.configuration import ConfigurationError
from moorage.objects.model.pod import Pod
from moorage.scheduler import Scheduler

from .attempts import Attempts
from .measure import Meter, Timer
from .object_templates import BASE_POD, ObjectTemplate, read_template
from .ops import WorkloadFailedError
from .pods import FAILED, GATED, NEW, PodNames, PodRun
from .report import DEFAULT_TIE_BREAK, DONE, WorkloadReport, make_report
from .scheduler_perf_file import Workload
from .virtual_time import VirtualTime
from .workload_cluster import SimulatedCluster

TIMEOUT = 600
"""Seconds of virtual time that an operation may wait (scheduler_perf, executor.go)."""
DEFAULT_RATE = 500
"""Scheduling attempts per second of virtual time, for a workload without a threshold."""


class Run:
    """A running workload.

    Parameters
    ----------
    workload : Workload
    rate : Fraction
        Scheduling attempts per second of virtual time.
    timer : callable
        Nanoseconds, for what is measured.
    tie_break : str
        As in `Scheduler`.

    Attributes
    ----------
    runs : list of PodRun
        All pods that were created, deleted ones included.
    known : dict of str to (PodRun, int)
        Run of each pod by ``namespace/name``, and the number of the pod in the run.
    init_pods : int
        Number of pods that were created and not measured.
    ticks : int
        Number of repetitions of churn operations.
    placed : callable
        Called with run and number of each pod that was placed.
    """

    def __init__(self, workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> None:
        self.workload, self.timer = workload, timer
        self.time = VirtualTime(rate)
        self.scheduler = Scheduler(
            config=workload.scheduler_config,
            feature_gates=workload.feature_gates,
            tie_break=tie_break,
            clock=lambda: float(self.time.now),
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
        self.placed: Callable[[PodRun, int], None] = lambda run, number: None

    def execute(self) -> None:
        """Execute the operations of the workload in order.

        Raises
        ------
        InputError
            Names file and operation.
        WorkloadFailedError
            An operation cannot finish.
        """
        for number, op in enumerate(self.workload.ops):
            obj = f"{self.workload.full_name}: workloadTemplate[{number}]"
            with located(source=self.workload.source, obj=obj):
                op.execute(self, number)

    def template(self, path: str, params: Mapping[str, Any], count: int) -> ObjectTemplate:
        """A template file with its parameters.

        Parameters
        ----------
        path : str
            Relative to the file of the workload; "" for scheduler_perf's own pod.
        params : mapping
            Values of the names in the template.
        count : int
            Number of objects that are made of it.

        Raises
        ------
        InputError
            The file cannot be read, or is no template.
        """
        text = self._read(self.workload.path(path)) if path else BASE_POD
        return ObjectTemplate(text, params, count)

    # ---- pods ----------------------------------------------------------------------------------------------

    def add(self, *runs: PodRun) -> None:
        """Create the pods of runs in the cluster.

        Parameters
        ----------
        *runs : PodRun

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
            if framework.run_pre_enqueue_plugins(run.template) is not None:
                run.state[:] = GATED

    def update_pod(self, pod: Pod) -> None:
        """Replace a pod, which may end its gating.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        InputError
            There is none of this name.
        """
        self.cluster.update_pod(pod)
        run, number = self.known[pod.key]
        framework = self.scheduler.engines[pod.spec.scheduler_name].framework
        if run.state[number] == GATED and framework.run_pre_enqueue_plugins(pod) is None:
            run.state[number] = NEW

    def find(self, namespaces: Sequence[str], labels: dict[str, str]) -> Iterator[PodRun]:
        """Find runs of pods.

        Parameters
        ----------
        namespaces : sequence of str
            Namespaces of the pods; empty for all.
        labels : dict of str to str
            Labels that the pods have.

        Yields
        ------
        PodRun
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
        WorkloadFailedError
            The condition does not hold in time, or never can.
        """
        deadline = self.time.now + timeout
        while True:
            self.time.run_due()
            self.scheduler.queue.run_periodic(float(self.time.now))
            if done():
                return
            if self.time.now >= deadline:
                raise WorkloadFailedError(f"timed out after {float(timeout):g} s{self._waiting()}")
            if self._schedule_batch():
                continue
            coming = self._next_event()
            if coming is None:
                raise WorkloadFailedError(f"nothing is left to happen{self._waiting()}")
            self.time.now = min(coming, deadline)

    def sleep(self, seconds: Fraction) -> None:
        """Let virtual time pass while scheduling continues.

        Parameters
        ----------
        seconds : Fraction
        """
        end = self.time.now + seconds
        self.time.at(end, lambda: None)
        self.until(lambda: self.time.now >= end, seconds + 1)

    def _next_event(self) -> Fraction | None:
        """Time of the next event of the workload or the queue; None if there is none."""
        queue = self.scheduler.queue.next_event()
        coming = [self.time.next_event(), None if queue is None else Fraction(queue)]
        return min((when for when in coming if when is not None), default=None)

    def _waiting(self) -> str:
        """Pods without a node and the reason, as the end of an error message."""
        pods = sum(run.count(FAILED) for run in self.runs)
        failure = self.attempts.failure
        return f": {pods} pods fit nowhere ({failure.message})" if pods and failure is not None else ""

    def _schedule_batch(self) -> bool:
        """Pop and schedule pods up to the next event; returns whether there were any."""
        limit = min(self.time.attempts_until(self._next_event()), self.meter.batch_limit())
        tried, any_popped = self.attempts.next_batch(max(1, limit))
        self.time.attempted(tried)
        for run, number in self.attempts.placed:
            if run.state[number] >= 0:
                self.placed(run, number)
        return any_popped

    def counts(self) -> dict[str, int | float]:
        """Fields of the report that are not measured."""
        return {
            "nodes": self.cluster.nodes,
            "init_pods": self.init_pods,
            "unschedulable": sum(run.count(FAILED) for run in self.runs),
            "churn_ticks": self.ticks,
            "preemptors": self.attempts.preemptors,
            "victims": self.attempts.victims,
            "virtual_seconds": round(float(self.time.now), 6),
        }


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
    except WorkloadFailedError as error:
        status = f"failed: {error}"
    finally:
        run.meter.close()
    return make_report(workload, run.meter, status, tie_break=tie_break, **run.counts())


def _not_built(what: str) -> str:
    return f"failed: {what} not built yet"
