"""SchedulingQueue: which pod is tried next, and when one that failed is worth another attempt (kube-scheduler
v1.36, backend/queue/scheduling_queue.go)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from threading import Condition
from typing import Any, cast

from fastrlock.rlock import FastRLock

from moorage.errors import MoorageError
from moorage.framework.plugin.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    pod_update_events,
)
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.runtime.runtime import Framework
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import unit_of

from .hints import Hints
from .in_flight import InFlight, Observed
from .places import PendingPods, Places, Strategy, in_unit
from .queued_pod_info import MICROSECONDS, QUEUES, Place, QueuedPodInfo, microseconds
from .timers import MAX_UNSCHEDULABLE, NEVER, Timers
from .unschedulable_pods import group_of

logger = logging.getLogger("moorage.queue")


class SchedulingQueue:
    """The pods that wait for a node, by UID. Thread-safe; has no threads of its own.

    Parameters
    ----------
    frameworks : sequence of Framework
        One for each profile; the first one's QueueSort plugin orders the queue, and it has the pods that ask
        for no scheduler.
    clock : callable
        Seconds.
    initial_backoff, max_backoff : float
        Seconds to wait after the first failure, and at most; it doubles each time. At most 0: no backoff.
    pop_from_backoff : bool
        An empty active queue takes pods from the backoff queue (gate SchedulerPopFromBackoffQ).
    groups_pods : bool
        Pods of a group are tried together (gate GenericWorkload).
    nominator : PodNominator, optional
        Told of what happens to pods here.

    Attributes
    ----------
    hints : Hints
        The events that plugins have registered.
    pops_from_backoff, groups_pods : bool
    """

    def __init__(
        self,
        frameworks: Sequence[Framework],
        clock: Callable[[], float],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        pop_from_backoff: bool = True,
        groups_pods: bool = False,
        nominator: PodNominator | None = None,
    ) -> None:
        by_name = {framework.profile.scheduler_name: framework for framework in frameworks}
        by_name.setdefault("", frameworks[0])
        self.hints = Hints(by_name)
        self.pops_from_backoff = pop_from_backoff
        self.groups_pods = groups_pods
        self.nominator = PodNominator() if nominator is None else nominator
        self._clock = clock
        self._lock = FastRLock()
        self._changed = Condition(self._lock)
        self._waiting = 0
        self._closed = False
        self._places = Places(
            frameworks[0].queue_sort_func(),
            {name: framework.pre_enqueues for name, framework in by_name.items()},
            self.nominator,
            clock,
            initial_backoff,
            max_backoff,
            pop_from_backoff,
            groups_pods,
        )
        self._in_flight = InFlight()
        self._timers = Timers(self._places, clock())

    # ---- what is there -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of pods that wait, in whatever place."""
        return len(self._places.infos)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """The waiting pod of a UID; None for one that is unknown or in flight."""
        return self._places.infos.get(uid)

    def pending_pods(self) -> PendingPods:
        """All waiting pods."""
        with self._lock:
            return self._places.pending()

    def inactive(self) -> list[QueuedPodInfo]:
        """All waiting pods but those in the active queue."""
        with self._lock:
            return list(chain(*self._places.inactive()))

    def in_flight(self) -> list[QueuedPodInfo]:
        """The pods that were popped and whose attempt has not ended, in the order of their pop."""
        with self._lock:
            return list(self._in_flight)

    def flying(self, uid: str) -> QueuedPodInfo | None:
        """The pod in flight of a UID, or None."""
        with self._lock:
            return self._in_flight.get(uid)

    def in_flight_events(self) -> list[Observed]:
        """The events that are kept for pods in flight."""
        with self._lock:
            return self._in_flight.events

    def backoff_until(self, info: QueuedPodInfo) -> float | None:
        """When the backoff of a pod ends, in seconds; None where it has none."""
        until = self._places.backoff.until(info)
        return until / MICROSECONDS if until else None

    def is_listening(self) -> bool:
        """Whether any pod is here that an event may concern."""
        return bool(self._places.unschedulable.groups) or bool(self._in_flight)

    # ---- pods come, change and go --------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """Add a new pod without a node.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:  # while timers run, it is another time
            self.add_infos([QueuedPodInfo(pod, self._places.now())])

    def add_infos(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Add pods with these entries, one after the other.

        Parameters
        ----------
        infos : iterable of QueuedPodInfo
            Each takes the place of an entry of its UID.
        """
        with self._lock:
            moved = False
            for info in infos:
                known = self._places.infos.get(info.pod.metadata.uid)
                if known is not None:
                    self._places.leave(known)
                moved |= self._places.to_active(info, UNSCHEDULABLE_POD_ADD.label)
            if moved:
                self._wake()

    def update(self, old: Pod, new: Pod) -> None:
        """A pod without a node changed: an unschedulable one moves if a hint says so.

        Parameters
        ----------
        old, new : Pod
        """
        with self._lock:
            uid = new.metadata.uid
            if uid in self._in_flight:
                for event in pod_update_events(old, new):
                    self._in_flight.observe(event, old, new)
                return
            info = self._places.infos.get(uid)
            if info is None:
                info = QueuedPodInfo(new, self._places.now())
                moved = self._places.to_active(info, UNSCHEDULABLE_POD_UPDATE.label)
            elif info.place is Place.UNSCHEDULABLE:
                self._places.replace(info, new)
                self.nominator.update_nominated_pod(old, new)
                moved = self._reconsider(info, old, new)
            else:
                self._places.replace(info, new)
                self.nominator.update_nominated_pod(old, new)
                moved = False
            if moved:
                self._wake()

    def _reconsider(self, info: QueuedPodInfo, old: Pod, new: Pod) -> bool:
        """Whether what changed of an unschedulable pod moves it."""
        for event in pod_update_events(old, new):
            strategy = self.hints.strategy(info, event, old, new)
            if strategy is not Strategy.SKIP and self._places.requeue(info, strategy, event.label):
                return True
        return False

    def delete(self, *pods: Pod) -> None:
        """Remove pods that are deleted or have a node now. One in flight stays there until its attempt ends.

        Parameters
        ----------
        *pods : Pod
        """
        with self._lock:
            infos = self._places.infos
            for pod in pods:
                self.nominator.delete_nominated_pod_if_exists(pod)
                info = infos.get(pod.metadata.uid)
                if info is not None:
                    self._places.leave(info)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods to the active queue, whatever hints and backoff say.

        Parameters
        ----------
        pods : iterable of Pod
            A gated one stays if PreEnqueue still rejects it; for one in flight the event is kept; pods that
            the queue does not know are ignored.
        """
        with self._lock:
            moved = False
            for pod in pods:
                uid = pod.metadata.uid
                info = self._places.infos.get(uid)
                if info is None:
                    if uid in self._in_flight:
                        self._in_flight.observe(FORCE_ACTIVATE, None, pod)
                elif info.place is not Place.ACTIVE:
                    backs_off = info.place is not Place.UNSCHEDULABLE
                    moved |= self._places.to_active(info, FORCE_ACTIVATE.label, backs_off)
            if moved:
                self._wake()

    # ---- attempts ------------------------------------------------------------------------------------------

    def pop(self, timeout: float | None = None) -> QueuedPodInfo | None:
        """Take the next pod, which is in flight from now on.

        Parameters
        ----------
        timeout : float, optional
            Seconds of real time to wait for a pod; 0: not at all; by default until `close`.

        Returns
        -------
        QueuedPodInfo or None
            None where the time is over, or the queue is closed and has no pods.
        """
        with self._lock:
            while not (infos := self._pop_many(1)):
                if timeout == 0 or not self._wait(timeout):
                    return None
            return infos[0]

    def pop_unit(self, timeout: float | None = None) -> list[QueuedPodInfo]:
        """Take the next pod, and with it all others of its group that nothing keeps out of the queue: by
        priority, then by when each was first ready (kube-scheduler v1.36, podGroupInfoForPod). Empty where
        `pop` answers None."""
        with self._lock:
            while (first := self.pop(0)) is None:
                if timeout == 0 or not self._wait(timeout):  # it gives up one level of the lock
                    return []
            mates = [info for info in self._places.units.mates(first.unit) if not info.gating_plugin]
            for info in mates:
                self._in_flight.add(info, self._places.take(info))
                info.attempts += 1
            return sorted([first, *mates], key=in_unit)

    def pop_batch(self, limit: int) -> list[QueuedPodInfo]:
        """Take the next pods, without waiting for any.

        Parameters
        ----------
        limit : int
            At least 1.

        Returns
        -------
        list of QueuedPodInfo
            As repeated calls of `pop` would take them: up to `limit` pods where groups are ignored; else the
            next pod with the others of its group.
        """
        if self.groups_pods:
            return self.pop_unit(0)
        with self._lock:
            return self._pop_many(limit)

    def _pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Take the next pods, which are in flight from now on; none where no pod can be popped."""
        infos: list[QueuedPodInfo] = []
        while not infos and (popped := self._places.pop_many(limit))[0]:
            for info in popped[0]:
                info.attempts += 1
                if self._in_flight.add(info, popped[1]):
                    infos.append(info)
                else:
                    logger.error("pod %s is in flight already and is discarded", info.pod.key)
        return infos

    def _wait(self, timeout: float | None) -> bool:
        """Wait for a pod; false where none came."""
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._closed or self._places.has_next(), timeout)
            return self._places.has_next()
        finally:
            self._waiting -= 1

    def _wake(self) -> None:
        if self._waiting:
            self._changed.notify_all()

    def put_back(self, *infos: QueuedPodInfo) -> None:
        """Popped pods were not tried after all: they are where they were, as if they had not been popped.

        Parameters
        ----------
        *infos : QueuedPodInfo

        Raises
        ------
        MoorageError
            One is not in flight; those before it are back.
        """
        with self._lock:
            for info in infos:
                place = self._in_flight.place(info.pod.metadata.uid)
                if place is None:
                    raise MoorageError(f"Pod {info.pod.key} is not in flight")
                info.attempts -= 1
                self._places.put(info, place)
                self._in_flight.done(info.pod.metadata.uid)
            self._wake()

    def done(self, *uids: str) -> None:
        """The attempts of these pods have ended."""
        with self._lock:
            self._in_flight.done(*uids)

    def save(self) -> object:
        """All pods, where they are and what is known of them, for `undo`."""
        with self._lock:
            return self._places.save(), self._in_flight.save(), self._timers.save(), self.nominator.save()

    def undo(self, saved: object) -> None:
        """Be as at `save`."""
        with self._lock:
            places, in_flight, timers, nominated = cast(Any, saved)
            self._in_flight.undo(in_flight)
            self._places.undo(places)
            self._timers.undo(timers)
            self.nominator.undo(nominated)

    def repair(self) -> None:
        """An exception (an interrupt by a signal) may have ended an operation halfway: bring every place in
        line with `Places.infos`. A pod that was between two places then is in none."""
        with self._lock:
            self._places.rebuild()
            self._in_flight.rebuild(self._places.infos)
            self.nominator.rebuild()

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> None:
        """A popped pod failed, for the rejectors that it names: it waits for what may help, or backs off if
        that happened meanwhile or if it has no rejectors. Its attempt has ended in any case.

        Raises
        ------
        MoorageError
            A pod of its UID is in the queue.
        """
        with self._lock:
            uid = info.pod.metadata.uid
            known = self._places.infos.get(uid)
            if known is not None and known.place is not None:
                self._in_flight.done(uid)
                raise MoorageError(f"Pod {info.pod.key} is already present in {QUEUES[known.place]}")
            self._come_back(info)  # where the clock fails, the pod stays in flight
            self._in_flight.done(uid)

    def _come_back(self, info: QueuedPodInfo) -> None:
        now = self._places.now()
        if info.rejectors:
            info.unschedulable_count += 1
            info.consecutive_errors_count = 0
        else:
            info.consecutive_errors_count += 1
        info.timestamp = now
        info.until = 0
        info.was_flushed = False
        if self._places.requeue(info, self._after_flight(info), SCHEDULE_ATTEMPT_FAILURE):
            self._wake()

    def _after_flight(self, info: QueuedPodInfo) -> Strategy:
        """What happened while the pod was in flight, and what that makes of it."""
        if not info.rejectors or info.unit is not None:
            return Strategy.AFTER_BACKOFF
        uid = info.pod.metadata.uid
        if uid not in self._in_flight:
            logger.error("pod %s came back but is not in flight", info.pod.key)
            return Strategy.AFTER_BACKOFF
        return self.hints.strategy_of_all(info, self._in_flight.since_pop(uid))

    # ---- events --------------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, check: Callable[[Pod], bool] | None = None
    ) -> None:
        """Move the unschedulable pods that an event makes worth another attempt, and keep the event for the
        pods in flight.

        Parameters
        ----------
        event : ClusterEvent
        old, new : object or None
            The object before and after; None where it was added or deleted.
        check : callable, optional
            False for pods that are left alone.
        """
        with self._lock:
            if not self.is_listening() or not self.hints.concerns(event):
                return
            infos = self._affected_pods(event, new)
            if check is not None:
                infos = [info for info in infos if check(info.pod)]
            self._sweep(infos, event, old, new)

    def _affected_pods(self, event: ClusterEvent, new: Any) -> list[QueuedPodInfo]:
        """The unschedulable pods to ask the hints about, in order of entry. Those that only an event about
        their own group can move are found by it: of very many that wait for others of their group, each event
        affects a few."""
        hints, places = self.hints, self._places
        infos = places.unschedulable.select(
            lambda group: hints.may_move(group, event) and not hints.is_of_units(group, event)
        )
        if not places.units.members:
            return infos
        # A new pod that is kept out itself: the same plugin would keep its mates out once more.
        came = None if new is None else places.infos.get(new.metadata.uid)
        gate = came.gating_plugin if came is not None else ""
        for info in places.units.mates(unit_of(new)):
            if info.place is not Place.UNSCHEDULABLE or (gate and info.gating_plugin == gate):
                continue
            group = group_of(info)
            if hints.may_move(group, event) and hints.is_of_units(group, event):
                infos.append(info)
        return sorted(infos, key=lambda info: info.order)

    def move_all_for_each(self, event: ClusterEvent, news: Iterable[Any]) -> None:
        """`move_all_to_active_or_backoff_queue` for the same event of several new objects.

        Parameters
        ----------
        event : ClusterEvent
        news : iterable of object
            In the order of their events.
        """
        with self._lock:
            may_move, groups = self.hints.may_move, self._places.unschedulable.groups
            if self._in_flight or [group for group in groups if may_move(group, event)]:
                for new in news:
                    self.move_all_to_active_or_backoff_queue(event, None, new)

    def _sweep(self, infos: Iterable[QueuedPodInfo], event: ClusterEvent, old: Any, new: Any) -> None:
        moved = False
        for info in infos:
            strategy = self.hints.strategy(info, event, old, new)
            if strategy is not Strategy.SKIP:
                moved |= self._places.requeue(info, strategy, event.label)
        if self._in_flight:
            self._in_flight.observe(event, old, new)
        if moved:
            self._wake()

    # ---- timers --------------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Move the pods whose backoff is over to the active queue."""
        with self._lock:
            moved = False
            for info in self._places.pop_completed():
                moved |= self._places.to_active(info, BACKOFF_COMPLETE, True)
            if moved:
                self._wake()

    def flush_unschedulable_left_over(self) -> None:
        """Move the pods that have been unschedulable for more than 5 minutes, but for gated ones."""
        with self._lock:
            end = microseconds(self._places.now()) - MAX_UNSCHEDULABLE
            infos = self._places.unschedulable.older_than(end)
            for info in infos:
                info.was_flushed = True
            if infos:
                event, may_move = UNSCHEDULABLE_TIMEOUT, self.hints.may_move
                moving = [info for info in infos if may_move(group_of(info), event)]
                self._sweep(moving, event, None, None)

    def next_event(self) -> float | None:
        """When a timer will next move a pod, in seconds; None where there is nothing for it to move."""
        with self._lock:
            at = min(self._timers.backoff(), self._timers.left_over(gated=False))
            return None if at == NEVER else at / MICROSECONDS

    def run_periodic(self, now: float) -> None:
        """Do what the two timers would have done until `now`, in seconds, each thing at its time: at each
        whole second for pods that back off, every 30 seconds from the beginning for unschedulable ones."""
        with self._lock:
            try:
                # Gated pods are not moved, but that time is up for one is an event for pods in flight.
                for at, is_backoff in self._timers.until(now, gated=bool(self._in_flight)):
                    self._places.now = partial(float, at)
                    if is_backoff:
                        self.flush_backoff_completed()
                    else:
                        self.flush_unschedulable_left_over()
            finally:
                self._places.now = self._clock

    def close(self) -> None:
        """Whoever waits for a pod returns; every attempt has ended."""
        with self._lock:
            self._closed = True
            self._in_flight.done(*[info.pod.metadata.uid for info in self._in_flight])
            self._changed.notify_all()
