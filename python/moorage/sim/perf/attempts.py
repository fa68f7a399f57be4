"""Scheduling attempts of a workload; runs of equal pods are placed by their template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from moorage._core.decide.pod_batch import PodBatch
from moorage.objects import Pod, PodGroup
from moorage.queue import QueuedPodInfo
from moorage.scheduler.cycle.engine import Engine
from moorage.scheduler.cycle.results import Failure, ScheduleResult
from moorage.scheduler.groups.group_attempt import GroupResult
from moorage.scheduler.runs import Run as SchedulerRun

from .pods import FAILED, GONE, PodRun

if TYPE_CHECKING:
    from .loop import Run

Way = Callable[[Engine, PodBatch, Sequence[QueuedPodInfo], range], int]


class Attempts(SchedulerRun):
    """Takes the pods of a workload from the scheduler's queue, places and binds them.

    Attributes
    ----------
    preemptors, victims : int
        Attempts that had others evicted, and pods that were evicted.
    placed : list of (PodRun, int)
        What the last batch placed: runs, and numbers in them.
    failure : Failure or None
        Why the last pod that failed was not placed.
    """

    defers_failed_groups = False  # time passes in a simulation, so that backoff limits the attempts

    def __init__(self, run: Run) -> None:
        super().__init__(run.scheduler)
        self.run = run
        self.preemptors = self.victims = 0
        self.placed: list[tuple[PodRun, int]] = []
        self.failure: Failure | None = None
        run.scheduler.handle.on_eviction.append(self._evicted)

    def next_batch(self, limit: int) -> tuple[int, bool]:
        """Pop and try up to `limit` pods; returns the number of attempts, and whether any pod was popped."""
        meter, began, measured = self.run.meter, self.run.timer(), 0
        self.result, self.placed = ScheduleResult(self.scheduler.cache.state, 0), []
        infos, pods = self.take(limit), meter.pods
        if meter.window is not None and infos:
            runs = Counter(self.run.known[info.pod.key][0] for info in infos)
            measured = sum(count for one, count in runs.items() if meter.measures(one))
            meter.queue_ns += (self.run.timer() - began) * measured // len(infos)
            meter.queued += measured
        tried = self.attempt(infos) if infos else 0
        self.bind()
        if meter.window is not None and infos:
            meter.tried(self.run.timer() - began, measured / len(infos), meter.pods - pods)
        return tried, bool(infos or self.result.skipped)

    def place(self, engine: Engine, batch: PodBatch, infos: Sequence[QueuedPodInfo], pods: range) -> int:
        at, evicted = pods.start, self.victims
        while at < pods.stop and evicted == self.victims:
            stop = min(self._equal_until(infos, at), pods.stop)
            if stop > at + 1:
                at += self._by_template(infos[at:stop])
            else:
                stop = self._run_until(infos, at, pods.stop)
                at += self._timed(super().place, engine, batch, infos, range(at, stop))
        return at - pods.start

    def _each(self, engine: Engine, batch: PodBatch, infos: Sequence[QueuedPodInfo], pods: range) -> int:
        at, evicted = pods.start, self.victims
        while at < pods.stop and evicted == self.victims:
            at += self._timed(super()._each, engine, batch, infos, range(at, at + 1))
        return at - pods.start

    def _run_until(self, infos: Sequence[QueuedPodInfo], at: int, end: int) -> int:
        """The end of the pods from `at` on that are of one run and differ from its template."""
        one, _ = self.run.known[infos[at].pod.key]
        stop = at + 1
        while stop < end and self.run.known[infos[stop].pod.key][0] is one:
            if one.is_fresh(infos[stop].pod):
                break
            stop += 1
        return stop

    def _equal_until(self, infos: Sequence[QueuedPodInfo], at: int) -> int:
        """The end of the run of pods from `at` on that equal their template and have consecutive numbers."""
        one, number = self.run.known[infos[at].pod.key]
        stop = at
        while stop < len(infos) and one.is_fresh(infos[stop].pod):
            if self.run.known[infos[stop].pod.key] != (one, number + stop - at):
                break
            stop += 1
        return stop

    def _by_template(self, infos: Sequence[QueuedPodInfo]) -> int:
        """Place equal pods by their template; returns the number of attempts."""
        one, number = self.run.known[infos[0].pod.key]
        meter, timer, n = self.run.meter, self.run.timer, len(infos)
        began = timer()
        done = self.scheduler.schedule_by_template(one.template, n, one.first + number)
        placed = len(done)
        meter.scheduled(one, placed, began, timer())
        self._assumed(infos[:placed], cast(list[str], done.nodes))
        if done.failure is None:
            return placed
        # Without evictions for the first pod that failed, nothing has changed for the pods after it.
        failed = infos[placed : placed + 1] if done.failure.nominated_node else infos[placed:]
        for info in failed:
            self._failed(info, done.failure)
        return placed + len(failed)

    def _timed(
        self, way: Way, engine: Engine, batch: PodBatch, infos: Sequence[QueuedPodInfo], pods: range
    ) -> int:
        """Try some pods of a batch, which are of one run; how many were tried."""
        one, _ = self.run.known[infos[pods.start].pod.key]
        before, began = len(self.placed), self.run.timer()
        tried = way(engine, batch, infos, pods)
        self.run.meter.scheduled(one, len(self.placed) - before, began, self.run.timer())
        return tried

    def place_unit(
        self, group: PodGroup | None, pods: Sequence[Pod], scheduled: Sequence[Pod]
    ) -> GroupResult:
        one, began = self.run.known[pods[0].key][0], self.run.timer()
        done = super().place_unit(group, pods, scheduled)
        placed = int(np.count_nonzero(done.rows >= 0))
        self.run.meter.scheduled(one, placed, began, self.run.timer())
        return done

    def _note_placements(self, keys: Sequence[str], nodes: Sequence[str]) -> None:
        known, find_row = self.run.known, self.scheduler.table.find_row
        for key, node in zip(keys, nodes, strict=True):
            one, number = placed = known[key]
            one.state[number] = cast(int, find_row(node))
            self.placed.append(placed)
        super()._note_placements(keys, nodes)

    def _failed(self, info: QueuedPodInfo, failure: Failure) -> None:
        one, number = self.run.known[info.pod.key]
        one.state[number] = FAILED
        self.failure = failure
        self.preemptors += bool(failure.nominated_node)
        super()._failed(info, failure)

    def _evicted(self, victim: Pod, node: str, preemptor: Pod | PodGroup) -> None:
        super()._evicted(victim, node, preemptor)
        self.victims += 1
        one, number = self.run.known[victim.key]
        one.state[number] = GONE
