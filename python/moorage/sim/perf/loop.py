"""The loop of a workload: the queue in virtual time, and what happens to pods that do not fit.

What is simplified, as there is no scheduling queue yet: pods that fit nowhere wait until something happens
(a node or another object comes or changes, a pod goes; a pod comes, for those with pod affinity or spread
constraints), whatever hints a plugin would give, and then out their backoff of 1, 2, 4, 8, 10 seconds. They
are tried again in the batches in which they failed. Time passes only for attempts and while everything waits;
creating objects and binding take none. A pod that would have to evict others fails the workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from moorage.errors import NotBuiltError
from moorage.scheduler import Failure, Scheduler

from .cluster import SimulatedCluster
from .config import Workload
from .measure import CHUNK, Meter, Timer
from .object_templates import TemplateFiles
from .pods import FAILED, GATED, Batch, PodNames, PodQueue, PodRun, Unschedulable
from .victims import would_evict
from .virtual_time import VirtualTime

TIMEOUT = 600
"""Seconds of virtual time that an operation may wait (scheduler_perf, executor.go)."""


class WorkloadFailedError(Exception):
    """A workload cannot go on, and why."""


class Run:
    """A workload under way.

    Attributes
    ----------
    runs : list of PodRun
        All pods that were created, deleted ones included.
    templates : TemplateFiles
    init_pods : int
        Pods that came while nobody measured such pods.
    ticks : int
        How often churn came round.
    """

    def __init__(self, workload: Workload, rate: Fraction, timer: Timer, tie_break: str) -> None:
        self.workload, self.timer = workload, timer
        self.time = VirtualTime(rate)
        self.scheduler = Scheduler(
            config=workload.scheduler_config,
            feature_gates=workload.feature_gates,
            tie_break=tie_break,
            strict=True,
            clock=lambda: float(self.time.now),
        )
        for engine in self.scheduler.engines.values():
            engine.runs_post_filter = False
        self.cluster = SimulatedCluster(self.scheduler)
        self.templates = TemplateFiles()
        self.names = PodNames()
        self.queue = PodQueue()
        self.unschedulable = Unschedulable()
        self.meter = Meter()
        self.runs: list[PodRun] = []
        self.init_pods = 0
        self.ticks = 0
        self.placed: Callable[[PodRun, int, int], None] = lambda run, start, stop: None
        self._lowest = 1 << 31

    # ---- pods ----------------------------------------------------------------------------------------------

    def add(self, run: PodRun) -> None:
        """Pods were created."""
        template = run.template
        if template.spec.scheduler_name not in self.scheduler.engines:
            raise WorkloadFailedError(f"no profile of the name {template.spec.scheduler_name}")
        self.runs.append(run)
        self.init_pods += 0 if self.meter.measures(run) else len(run)
        framework = self.scheduler.engines[template.spec.scheduler_name].framework
        if framework.run_pre_enqueue_plugins(template) is not None:
            run.state[:] = GATED
            return
        self.push(Batch(run, 0, len(run)))

    def push(self, batch: Batch) -> None:
        if not self.meter.measures(batch.run):
            self.queue.push(batch)
            return
        began = self.timer()
        self.queue.push(batch)
        self.meter.queue_ns += self.timer() - began

    def find(self, namespaces: Callable[[str], bool], labels: dict[str, str]) -> Iterator[PodRun]:
        """Runs in these namespaces with these labels."""
        for run in self.runs:
            if namespaces(run.template.metadata.namespace) and run.matches(labels):
                yield run

    def happened(self, pods_only: bool = False) -> None:
        """Something may have made room: what waits is tried again, as soon as its backoff is over."""
        for one in self.unschedulable.take(pods_only):
            if one.ready <= self.time.now:
                self.push(one.batch)
            else:
                self.time.at(one.ready, lambda batch=one.batch: self.push(batch))  # type: ignore[misc]

    # ---- the loop ------------------------------------------------------------------------------------------

    def until(self, done: Callable[[], bool], timeout: Fraction | int = TIMEOUT) -> None:
        """Schedule, and let happen what is due, until this is so.

        Raises
        ------
        WorkloadFailedError
            If it does not come so far in time, or can never.
        """
        deadline = self.time.now + timeout
        while True:
            self.time.run_due()
            if done():
                return
            if self.time.now >= deadline:
                raise WorkloadFailedError(f"timed out after {float(timeout):g} s{self._waiting()}")
            if self._schedule_batch():
                continue
            coming = self.time.next_event()
            if coming is None:
                raise WorkloadFailedError(f"nothing is left to happen{self._waiting()}")
            self.time.now = min(coming, deadline)

    def sleep(self, seconds: Fraction) -> None:
        """Let time pass; scheduling goes on."""
        end = self.time.now + seconds
        self.time.at(end, lambda: None)
        self.until(lambda: self.time.now >= end, seconds + 1)

    def _waiting(self) -> str:
        """What waits, for a message."""
        waiting = list(self.unschedulable)
        pods = sum(one.batch.stop - one.batch.start for one in waiting)
        return f": {pods} pods fit nowhere ({waiting[0].message})" if waiting else ""

    def _schedule_batch(self) -> bool:
        """Pop and schedule pods up to the next event; whether there were any."""
        limit = max(1, min(self.time.until_next(), self.meter.room()))
        began = self.timer()
        batch = self.queue.pop(limit)
        popped = self.timer()
        if batch is None:
            return False
        run, first = batch.run, batch.run.first + batch.start
        count = batch.stop - batch.start
        # The core looks at the clock by which time.perf_counter_ns goes, and at no other.
        marks = np.zeros(count // CHUNK if self.timer is time.perf_counter_ns else 0, dtype=np.int64)
        result = self.scheduler.schedule_by_template(
            run.template, count, first, marks if len(marks) else None
        )
        ended = self.timer()
        if self.meter.measures(run):
            self.meter.queue_ns += popped - began
            self.meter.queued += count
        placed = len(result.rows)
        self.meter.scheduled(run, placed, popped, ended, marks)
        run.state[batch.start : batch.start + placed] = result.rows
        self.time.attempted(count)
        if placed:
            self._lowest = min(self._lowest, run.template.spec.priority or 0)
            self.placed(run, batch.start, batch.start + placed)
            self.happened(pods_only=True)
        if result.failure is not None:
            self._failed(Batch(run, batch.start + placed, batch.stop), result.failure)
        return True

    def _failed(self, batch: Batch, failure: Failure) -> None:
        run = batch.run
        template = run.template
        if (template.spec.priority or 0) > self._lowest and would_evict(self.scheduler, template):
            raise NotBuiltError("preemption")
        run.state[batch.start : batch.stop] = FAILED
        self.unschedulable.add(batch, self.time.now, failure.message)

    def counts(self) -> dict[str, int | float]:
        """The fields of the report that do not come from measuring."""
        return {
            "nodes": self.cluster.nodes,
            "init_pods": self.init_pods,
            "unschedulable": sum(run.count(FAILED) for run in self.runs),
            "churn_ticks": self.ticks,
            "virtual_seconds": round(float(self.time.now), 6),
        }
