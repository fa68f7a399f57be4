"""A run: waiting pods are tried in the order of the queue, until nothing that happens moves any of them.

What upstream's threads do between two cycles happens here at fixed points: victims are gone before the next
pod is tried, and placed pods are bound, and reported, when no pod is left that could be tried at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moorage.framework.runtime import Target
from moorage.objects.pod import Pod
from moorage.queue import QueuedPodInfo
from moorage.store import ApiError, ObjectStore

from .engine import Engine
from .results import Eviction, Failure, Result

if TYPE_CHECKING:
    from .scheduler import Scheduler

TERMINATING = "terminating"
FEW = 4
ALL = 1 << 62


class Run:
    """One run of a scheduler, and what came of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.attempts = scheduler.attempts
        self.result = Result()
        self._placed_pods: list[QueuedPodInfo] = []
        # After an eviction only a few: the others would have to be put back if there is another one.
        self._most = ALL
        self._evicts = False
        self._has_bound = False  # pods one by one, which nobody has heard of yet

    def all(self) -> Result:
        """Try all pods, those too that have failed before, and again those for which something has happened
        since; bind those that fit."""
        scheduler, queue = self.scheduler, self.scheduler.queue
        scheduler.sync()
        scheduler.volumes.settle()
        queue.activate([info.pod for infos in queue.pending_pods()[1:] for info in infos])
        scheduler.handle.on_eviction.append(self._evicted)
        try:
            self._try_all()
        finally:
            scheduler.handle.on_eviction.remove(self._evicted)
        left = [info.pod for info in queue.pending_pods().gated]
        self.result.skipped |= {
            pod.key: scheduler.not_ours(pod) for pod in (*left, *scheduler.pods.others.values())
        }
        return self.result

    def _try_all(self) -> None:
        while pods := self.take() or self._next():
            self.attempt(pods)

    def _next(self) -> list[Pod]:
        """The pods to try when none is left: those that bound pods make room for, or that come again."""
        self.bind()
        return self.take() or (self.take() if self._come_again() else [])

    def take(self, limit: int = ALL) -> list[Pod]:
        """Pop up to so many pods; notes those that cannot be tried."""
        scheduler, ours, most = self.scheduler, list[Pod](), min(limit, self._most)
        while len(ours) < most and (pod := self.attempts.pop()) is not None:
            if pod.metadata.deletion_timestamp:
                note = f"skip schedule deleting pod: {pod.key}"
                scheduler.handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
                self.result.skipped[pod.key] = TERMINATING
            elif not scheduler.cache.state.has_pod(pod):
                ours.append(pod)
                continue
            self.attempts.done(pod)
        return ours

    def _come_again(self) -> bool:
        """Have those pods tried once more that others were evicted for, but that no hint has brought back."""
        there = self.scheduler.queue.pending_pods().unschedulable
        failures = self.result.unschedulable
        again = [i.pod for i in there if i.pod.key in failures and failures[i.pod.key].nominated_node]
        for pod in again:
            failures[pod.key] = Failure(failures[pod.key].diagnosis, failures[pod.key].error)
        self.scheduler.queue.activate(again)
        return bool(again)

    # ---- attempts ------------------------------------------------------------------------------------------

    def attempt(self, pods: Sequence[Pod]) -> int:
        """Decide about popped pods, until others are evicted for one; the rest is put back. How many were
        tried."""
        self._evicts, tried = False, 0
        for engine, targets, some in self.scheduler.segments(pods):
            of_profile = self.place if engine.is_in_core_for(some[0]) else self._each
            tried += of_profile(engine, targets, some)
            if self._evicts:
                break
        for pod in pods[tried:]:
            self.attempts.put_back(pod)
        if self._evicts:
            self.scheduler.sync()
        self._most = FEW if self._evicts else min(self._most * FEW, ALL)
        return tried

    def place(self, engine: Engine, targets: list[Target], pods: list[Pod]) -> int:
        """Place pods of one profile."""
        scheduler, began = self.scheduler, time.perf_counter()
        batch = scheduler.batches.place(engine, targets, pods, rotation=False, until_eviction=True)
        self.result.seconds += time.perf_counter() - began
        for at, row in enumerate(batch.rows.tolist()):
            if row < 0:
                self._failed(pods[at], batch.failures[at])
            else:
                self._placed_pods.append(self._placed(pods[at], scheduler.table.row_name(row)))
        return len(batch.rows)

    def _each(self, engine: Engine, targets: list[Target], pods: list[Pod]) -> int:
        """Place and bind pods one by one, with all plugins of the profile."""
        for tried, (pod, target) in enumerate(zip(pods, targets, strict=True), 1):
            began = time.perf_counter()
            decision = self.scheduler.whole_cycle(engine, pod, target)
            self.result.seconds += time.perf_counter() - began
            if decision.node is None:
                self._failed(pod, Failure.of(decision))
            elif decision.waiting:
                self.result.waiting[pod.key] = decision.node
                self.result.unschedulable.pop(pod.key, None)
            else:
                self._placed(pod, decision.node)
                self._has_bound = True
            self.resume(self.scheduler.cache.clock())
            if self._evicts:
                return tried
        return len(pods)

    def resume(self, now: float) -> None:
        """Go on with pods whose waiting on Permit has ended."""
        for outcome in self.scheduler.bindings.resume(now):
            self.result.waiting.pop(outcome.pod.key, None)
            if outcome.failure is None:
                self._placed(outcome.pod, outcome.node)
                self._has_bound = True
            else:
                self._failed(outcome.pod, outcome.failure)

    def _placed(self, pod: Pod, node: str) -> QueuedPodInfo:
        self.result.placements[pod.key] = node
        self.result.unschedulable.pop(pod.key, None)
        return self.attempts.done(pod)

    def _failed(self, pod: Pod, failure: Failure) -> None:
        self.result.unschedulable[pod.key] = failure
        self.attempts.failed(pod, failure)
        self.scheduler.announce_freed()

    def _evicted(self, victim: Pod, node: str, preemptor: Pod) -> None:
        self._evicts = True
        self.result.placements.pop(victim.key, None)
        self.result.evicted[victim.key] = Eviction(node, preemptor.key)

    # ---- binding -------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind what was placed, in bulk where the store can, and hear of all that was bound. A pod whose
        binding is refused is taken back; one that has been evicted or deleted since is placed no more."""
        scheduler, placements = self.scheduler, self.result.placements
        infos, self._placed_pods = self._placed_pods, []
        if not (infos or self._has_bound):
            return
        self._has_bound = False
        for info in infos:
            if not scheduler.is_waiting(info.pod):
                placements.pop(info.pod.key, None)
        infos = [info for info in infos if info.pod.key in placements]
        scheduler.pods.binding = {info.pod.metadata.uid for info in infos}
        try:
            if isinstance(scheduler.client, ObjectStore):
                pods = [info.pod for info in infos]
                scheduler.client.bind_many(pods, [placements[pod.key] for pod in pods])
                infos = []
        except ApiError:
            pass  # nothing is bound: somebody else was faster with one of them
        for info in infos:
            pod = info.pod
            try:
                scheduler.client.bind(pod, placements[pod.key])
            except ApiError as error:
                del placements[pod.key]
                self.result.unschedulable[pod.key] = refuse(scheduler, info, error)
        scheduler.sync()
        scheduler.pods.binding = set()


def refuse(scheduler: Scheduler, info: QueuedPodInfo, error: ApiError) -> Failure:
    """An assumed pod that could not be bound is taken back, and comes to the queue again."""
    assumed, failure = scheduler.cache.get_pod(info.pod), Failure(error=str(error))
    scheduler.cache.forget_pod(assumed)
    scheduler.bindings.freed.append(assumed)
    scheduler.attempts.refused(info, failure)
    scheduler.announce_freed()
    return failure
