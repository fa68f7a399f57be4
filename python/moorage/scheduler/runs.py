"""A run: every waiting pod is tried once."""

from __future__ import annotations

import time
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


class Run:
    """One run of a scheduler, and what came of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.attempts = scheduler.attempts
        self.result = Result()

    def all(self) -> Result:
        """Pop all pods, decide about them in their order, and bind; those for which others were evicted
        come again."""
        scheduler, bulk = self.scheduler, list[QueuedPodInfo]()
        scheduler.sync()
        scheduler.handle.evicted.clear()
        waiting = self._take_pending()
        while waiting:
            for engine, targets, pods in scheduler.segments(waiting):
                if engine.profile.is_in_core:
                    bulk += self._batch(engine, targets, pods)
                else:
                    self._each(engine, targets, pods)
            waiting = self._take_nominated(waiting)
        self._bind(bulk)
        self.result.warnings.extend(scheduler.unbuilt.warnings())
        return self.result

    def _take_pending(self) -> list[Pod]:
        """Pop all pods, those too that have failed before; notes those that cannot be tried."""
        scheduler, queue, result = self.scheduler, self.scheduler.queue, self.result
        queue.activate([info.pod for infos in queue.pending_pods()[1:] for info in infos])
        ours = []
        while (pod := self.attempts.pop()) is not None:
            if pod.metadata.deletion_timestamp:
                note = f"skip schedule deleting pod: {pod.key}"
                scheduler.handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
                result.skipped[pod.key] = TERMINATING
            elif not scheduler.cache.state.has_pod(pod):
                ours.append(pod)
                continue
            self.attempts.done(pod)
        left = [info.pod for info in queue.pending_pods().gated]
        result.skipped |= {
            pod.key: scheduler.not_ours(pod) for pod in (*left, *scheduler.pods.others.values())
        }
        return ours

    def _batch(self, engine: Engine, targets: list[Target], pods: list[Pod]) -> list[QueuedPodInfo]:
        """Place pods of one profile; those that fit."""
        scheduler, began = self.scheduler, time.perf_counter()
        batch = scheduler.batches.place(engine, targets, pods, rotation=False)
        self.result.seconds += time.perf_counter() - began
        placed = []
        for at, (pod, row) in enumerate(zip(pods, batch.rows.tolist(), strict=True)):
            if row < 0:
                self._failed(pod, batch.failures[at])
            else:
                self.result.placements[pod.key] = scheduler.table.row_name(row)
                placed.append(self.attempts.done(pod))
        return placed

    def _each(self, engine: Engine, targets: list[Target], pods: list[Pod]) -> None:
        """Place and bind pods one by one, with all plugins of the profile."""
        for pod, target in zip(pods, targets, strict=True):
            began = time.perf_counter()
            decision = self.scheduler.whole_cycle(engine, pod, target)
            self.result.seconds += time.perf_counter() - began
            if decision.node is None:
                self._failed(pod, Failure.of(decision))
            elif decision.waiting:
                self.result.waiting[pod.key] = decision.node
            else:
                self._placed(pod, decision.node)
            self.resume(self.scheduler.cache.clock())

    def resume(self, now: float) -> None:
        """Go on with pods whose waiting on Permit has ended."""
        for outcome in self.scheduler.bindings.resume(now):
            self.result.waiting.pop(outcome.pod.key, None)
            if outcome.failure is None:
                self._placed(outcome.pod, outcome.node)
            else:
                self._failed(outcome.pod, outcome.failure)

    def _placed(self, pod: Pod, node: str) -> None:
        self.result.placements[pod.key] = node
        self.attempts.done(pod)

    def _failed(self, pod: Pod, failure: Failure) -> None:
        self.result.unschedulable[pod.key] = failure
        self.attempts.failed(pod, failure)

    def _take_nominated(self, pods: list[Pod]) -> list[Pod]:
        """Pop those of some pods again that others have just been evicted for; notes who was evicted."""
        scheduler, result = self.scheduler, self.result
        scheduler.sync()
        evicted = {key: Eviction(*where) for key, where in scheduler.handle.evicted.items()}
        scheduler.handle.evicted.clear()
        for key in evicted:
            result.placements.pop(key, None)
        result.evicted |= evicted
        failed = [(pod, result.unschedulable.get(pod.key)) for pod in pods]
        nominated = [pod for pod, failure in failed if failure is not None and failure.nominated_node]
        for pod in nominated:
            del result.unschedulable[pod.key]
        return self.attempts.take(nominated)

    def _bind(self, infos: list[QueuedPodInfo]) -> None:
        """Bind what was placed, in bulk where the store can. A pod whose binding is refused is taken back;
        one that was deleted meanwhile is placed no more."""
        scheduler, placements = self.scheduler, self.result.placements
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
                scheduler.cache.forget_pod(scheduler.cache.get_pod(pod))
                del placements[pod.key]
                failure = self.result.unschedulable[pod.key] = Failure(error=str(error))
                self.attempts.refused(info, failure)
        scheduler.sync()
        scheduler.pods.binding = set()
