"""A run: waiting pods are tried in the order of the queue, until nothing that happens moves any of them.

What upstream's threads do between two cycles happens here at fixed points: victims are gone before the next
pod is tried, and placed pods are bound, and reported, when no pod is left that could be tried at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup, UnitKey
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.queue import QueuedPodInfo
from moorage.store import ApiError, ObjectStore

from .cycle.engine import Engine
from .cycle.results import Eviction, Failure, Result
from .groups.group_status import patch_group
from .groups.place_group import (
    GroupResult,
    place_group,
    rejected,
    several_schedulers,
)
from .placing.binding_cycle import Outcome

if TYPE_CHECKING:
    from .scheduler import Scheduler

TERMINATING = "terminating"
FEW = 4
ALL = 1 << 62

logger = logging.getLogger("moorage.scheduler")


class Run:
    """One run of a scheduler, and what came of it."""

    gives_up = True
    """Whether a group that has failed is not tried again until something has happened."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.attempts = scheduler.attempts
        self.result = Result()
        self._placed_pods: list[QueuedPodInfo] = []
        # After an eviction only a few: the others would have to be put back if there is another one.
        self._most = ALL
        self._evicts = False
        self._has_bound = False  # pods one by one, which nobody has heard of yet
        # Groups that have failed since anything happened that may help them, and their pods, popped again.
        self._in_vain: set[UnitKey] = set()
        self._aside: list[Pod] = []

    def all(self) -> Result:
        """Try all pods, those too that have failed before, and again those for which something has happened
        since; bind those that fit."""
        scheduler, queue = self.scheduler, self.scheduler.queue
        with self._owning_pods():
            scheduler.sync()
            scheduler.volumes.settle()
            queue.activate([info.pod for infos in queue.pending_pods()[1:] for info in infos])
            self._try_all()
            self._something_happened()
        left = [info.pod for info in queue.pending_pods().gated]
        self.result.skipped |= {
            pod.key: scheduler.not_ours(pod) for pod in (*left, *scheduler.pods.others.values())
        }
        return self.result

    def advance(self, now: float) -> None:
        """Go on with pods whose waiting on Permit has ended, and with no others."""
        with self._owning_pods():
            self.resume(now)

    @contextmanager
    def _owning_pods(self) -> Iterator[None]:
        """Inside, pods are popped and tried. Whatever ends that, no pod is lost, and none is left halfway."""
        self.scheduler.enlist()
        try:
            self.scheduler.handle.on_eviction.append(self._evicted)
            yield
            self._end()
        except BaseException:
            self._end()
            self.break_off()
            raise

    def _end(self) -> None:
        callbacks = self.scheduler.handle.on_eviction
        callbacks[:] = [callback for callback in callbacks if callback != self._evicted]
        self.scheduler.handle.plugin_errors.summarize()

    def break_off(self) -> None:
        """An exception ends the run: whatever was popped, is not bound and is in no binding cycle comes off
        its node, and back to the queue."""
        scheduler = self.scheduler
        self._placed_pods, self._aside = [], []
        self._in_vain.clear()
        scheduler.pods.binding = set()
        scheduler.repair_queue()
        try:
            scheduler.sync()  # of what was bound
        except Exception:
            logger.exception("after an exception in a run")
        for info in scheduler.queue.in_flight():
            if not scheduler.bindings.has(info.pod):
                scheduler.take_back(info.pod)
                self.attempts.take_back(info)

    def _try_all(self) -> None:
        while pods := self.take() or self._next():
            self.attempt(pods)

    def _next(self) -> list[Pod]:
        """The pods to try when none is left: those that bound pods make room for, else those for which time
        has to pass while others are being bound, else those that come again."""
        while True:
            self.resume(self.scheduler.cache.clock())  # some were preempted while they waited
            self.bind()
            pods = self.take()
            if pods or not self.let_time_pass():
                return pods or (self.take() if self._come_again() else [])

    def let_time_pass(self) -> bool:
        """Let time pass until a pod that is being bound can go on, and go on; False where there is none."""
        if not self.scheduler.bindings.let_time_pass():
            return False
        self.resume(self.scheduler.cache.clock())
        return True

    def take(self, limit: int = ALL) -> list[Pod]:
        """Pop up to so many pods without a group, or all of one group; notes those that cannot be tried."""
        ours, most = list[Pod](), min(limit, self._most)
        while len(ours) < most and (popped := self.attempts.pop_unit()):
            unit = self.attempts.unit_of(popped[0])
            if unit is not None and ours:
                self._put_back(popped)
                break
            popped = [pod for pod in popped if self._is_to_be_tried(pod)]
            if unit in self._in_vain:
                self._aside += popped
                continue
            ours += popped
            if unit is not None and ours:
                break
        return ours

    def _is_to_be_tried(self, pod: Pod) -> bool:
        """Whether a popped pod is one to place; else its attempt ends here."""
        if pod.metadata.deletion_timestamp:
            note = f"skip schedule deleting pod: {pod.key}"
            self.scheduler.handle.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            self.result.skipped[pod.key] = TERMINATING
        elif not self.scheduler.cache.state.has_pod(pod):
            return True
        self.attempts.done(pod)
        return False

    def _put_back(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.attempts.put_back(pod)

    def _something_happened(self) -> None:
        """Groups that have failed may be tried once more."""
        self._in_vain.clear()
        aside, self._aside = self._aside, []
        self._put_back(aside)

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
        unit = self.attempts.unit_of(pods[0])
        self._evicts = False
        if unit is not None:
            self._attempt_unit(unit, pods)
            return len(pods)
        tried = 0
        for engine, targets, some in self.scheduler.segments(pods):
            of_profile = self.place if engine.is_in_core_for(some[0]) else self._each
            tried += of_profile(engine, targets, some)
            if self._evicts:
                break
        self._put_back(pods[tried:])
        if self._evicts:
            self.scheduler.sync()
            self._something_happened()
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
            else:
                self._went(Outcome(pod, decision.node, decision.waiting, decision.binding))
            self.resume(self.scheduler.cache.clock())
            if self._evicts:
                return tried
        return len(pods)

    def _attempt_unit(self, unit: UnitKey, pods: Sequence[Pod]) -> None:
        """Place the pods of a group, all that it needs or none."""
        scheduler, groups = self.scheduler, self.scheduler.groups
        group, scheduled = groups.get(unit), groups.scheduled(unit)
        done = self.place_unit(group, pods, scheduled)
        failures = done.failures if done.succeeded or done.is_error else held_back(done)
        for at, row in enumerate(done.rows.tolist()):
            if row < 0:
                self._failed(pods[at], failures[at])
                scheduler.bindings.nominate(scheduler.handle.nominator, pods[at], done.nominating.get(at))
            elif at not in done.started:
                self._placed_pods.append(self._placed(pods[at], scheduler.table.row_name(row)))
            else:
                self._went(scheduler.bindings.bind(done.started[at]))
        if group is not None:
            patch_group(scheduler.client, group, done.message, done.is_error)
        if done.succeeded:
            self._allow(scheduled)
        elif self._evicts:
            scheduler.sync()
            self._something_happened()
        elif self.gives_up:
            self._in_vain.add(unit)
        self.resume(scheduler.cache.clock())

    def _allow(self, pods: Sequence[Pod]) -> None:
        """Those pods of a group go on that came alone before, and wait on Permit for the others."""
        for pod in pods:
            started = self.scheduler.bindings.waiting.get(pod.metadata.uid)
            if started is not None and started.waiting is not None:
                started.waiting.allow(GangScheduling.name)

    def place_unit(
        self, group: PodGroup | None, pods: Sequence[Pod], scheduled: Sequence[Pod]
    ) -> GroupResult:
        """Decide about the pods of a group, some of which may be scheduled already."""
        engines = {self.scheduler.engine_of(pod) for pod in pods}
        if len(engines) > 1:
            return rejected(pods, several_schedulers(pods))
        engine, scheduler, began = engines.pop(), self.scheduler, time.perf_counter()
        done = place_group(scheduler, engine, group, pods, scheduled, evicts=True)
        self.result.seconds += time.perf_counter() - began
        return done

    def resume(self, now: float) -> None:
        """Go on with pods whose waiting on Permit has ended."""
        for outcome in self.scheduler.bindings.resume(now):
            self._went(outcome)

    def _went(self, outcome: Outcome) -> None:
        """A pod came to the end of its binding cycle, waits on Permit, or is being bound."""
        pod, result = outcome.pod, self.result
        result.waiting.pop(pod.key, None)
        result.binding.pop(pod.key, None)
        if outcome.waiting or outcome.binding:
            (result.waiting if outcome.waiting else result.binding)[pod.key] = outcome.node
            result.unschedulable.pop(pod.key, None)
        elif outcome.failure is None:
            self._bound(pod, outcome.node)
        else:
            self._failed(pod, outcome.failure)

    def _placed(self, pod: Pod, node: str) -> QueuedPodInfo:
        self.result.placements[pod.key] = node
        self.result.unschedulable.pop(pod.key, None)
        return self.attempts.info(pod)

    def _bound(self, pod: Pod, node: str) -> None:
        """A pod was placed and bound by itself."""
        self._placed(pod, node)
        self.attempts.done(pod)
        self._has_bound = True

    def _failed(self, pod: Pod, failure: Failure) -> None:
        self.result.unschedulable[pod.key] = failure
        self.attempts.failed(pod, failure)
        self.scheduler.announce_freed()

    def _evicted(self, victim: Pod, node: str, preemptor: Pod | PodGroup) -> None:
        self._evicts = True
        self.result.placements.pop(victim.key, None)
        self.result.evicted[victim.key] = Eviction(node, preemptor.key)

    # ---- binding -------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind what was placed, in bulk where the store can, and hear of all that was bound. A pod whose
        binding is refused is taken back; one that has been evicted or deleted since is placed no more."""
        scheduler, placements = self.scheduler, self.result.placements
        infos = self._placed_pods
        if not (infos or self._has_bound):
            return
        self._has_bound = False
        for info in infos:
            if not scheduler.is_waiting(info.pod):
                placements.pop(info.pod.key, None)
                self.attempts.done(info.pod)
        infos = [info for info in infos if info.pod.key in placements]
        scheduler.pods.binding = {info.pod.metadata.uid for info in infos}
        try:
            if isinstance(scheduler.client, ObjectStore):
                pods = [info.pod for info in infos]
                scheduler.client.bind_many(pods, [placements[pod.key] for pod in pods])
                for pod in pods:
                    self.attempts.done(pod)
                infos = []
        except ApiError:
            pass  # nothing is bound: somebody else was faster with one of them
        for info in infos:
            pod = info.pod
            try:
                scheduler.client.bind(pod, placements[pod.key])
                self.attempts.done(pod)
            except ApiError as error:
                del placements[pod.key]
                self.result.unschedulable[pod.key] = refuse(scheduler, info, error)
        self._placed_pods = []
        scheduler.sync()
        scheduler.pods.binding = set()
        self._something_happened()


def held_back(done: GroupResult) -> dict[int, Failure]:
    """Why each pod of a group that failed has no node: because of itself, and of its group."""
    why = done.message
    known: dict[int, Failure] = {}
    for one in done.failures.values():  # pods that failed alike share one
        known[id(one)] = replace(one, held_back=why) if one.diagnosis and not one.held_back else one
    return {at: known[id(one)] for at, one in done.failures.items()}


def refuse(scheduler: Scheduler, info: QueuedPodInfo, error: ApiError) -> Failure:
    """An assumed pod that could not be bound is taken back, and comes to the queue again."""
    assumed, failure = (
        scheduler.cache.get_pod(info.pod),
        Failure(error=str(error), nominating=NominatingInfo()),
    )
    scheduler.cache.forget_pod(assumed)
    scheduler.bindings.freed.append(assumed)
    scheduler.attempts.refused(info, failure)
    scheduler.announce_freed()
    return failure
