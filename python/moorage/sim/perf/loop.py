"""The main loop of a workload: the scheduler and its queue in virtual time.

All objects are in the scheduler's store, and everything it is told comes from there. Time passes only for
attempts and while all pods wait; creating objects and binding take none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from moorage.objects.model.pod import Pod
from moorage.scheduler import Scheduler

from .attempts import Attempts
from .measure import Meter, Timer
from .pods import FAILED, GATED, NEW, PodNames, PodRun
from .scheduler_perf_file import Workload
from .templates.object_templates import TemplateFiles
from .virtual_time import VirtualTime
from .workload_cluster import SimulatedCluster

TIMEOUT = 600
"""Seconds of virtual time that an operation may wait (scheduler_perf, executor.go)."""


class WorkloadFailedError(Exception):
    """A workload cannot finish; the text says why."""


class Run:
    """A running workload.

    Attributes
    ----------
    runs : list of PodRun
        All pods that were created, deleted ones included.
    known : dict of str to (PodRun, int)
        The run of each pod by ``namespace/name``, and its number there.
    templates : TemplateFiles
    init_pods : int
        Pods that came while nobody measured such pods.
    ticks : int
        How often churn came round.
    placed : callable
        Told each pod that was placed, by run and number.
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
        self.templates = TemplateFiles()
        self.names = PodNames()
        self.meter = Meter()
        self.runs: list[PodRun] = []
        self.known: dict[str, tuple[PodRun, int]] = {}
        self.attempts = Attempts(self)
        self.init_pods = 0
        self.ticks = 0
        self.placed: Callable[[PodRun, int], None] = lambda run, number: None

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
        """Replace a pod, which may end its gating."""
        self.cluster.update_pod(pod)
        run, number = self.known[pod.key]
        framework = self.scheduler.engines[pod.spec.scheduler_name].framework
        if run.state[number] == GATED and framework.run_pre_enqueue_plugins(pod) is None:
            run.state[number] = NEW

    def find(self, namespaces: Callable[[str], bool], labels: dict[str, str]) -> Iterator[PodRun]:
        """Runs in given namespaces with given labels."""
        for run in self.runs:
            if namespaces(run.template.metadata.namespace) and run.matches(labels):
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
            If it does not come so far in time, or can never.
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
        """Let virtual time pass while scheduling continues."""
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
