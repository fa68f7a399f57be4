"""SchedulingQueue: the order of the waiting pods, and the events that move failed pods back.

kube-scheduler v1.36, backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from threading import Condition
from typing import Any, cast

from fastrlock.rlock import FastRLock

from moorage._core.base.watch_events import Notice
from moorage._core.queue.queued_pods import Place, QueuedGroupInfo, QueuedPodInfo, entries_of
from moorage._core.queue.unschedulable_pods import UnschedulablePods, rejection_of
from moorage.errors import MoorageError
from moorage.framework import ClusterEvent, Framework, NominatingInfo, PodNominator
from moorage.framework.plugin.events import (
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
)
from moorage.objects import Pod, UnitKey, group_of
from moorage.objects.workloads.ownership import FINISHED

from .hints import Hints, Observed
from .microseconds import MICROSECONDS, QUEUES, microseconds
from .possible_moves import Listeners, PossibleMove, possible_moves
from .priority_queue import BACKOFFS, PendingPods, PriorityQueue, QueueSettings, Strategy
from .timers import MAX_UNSCHEDULABLE, NEVER, Timers

DEFAULTS = QueueSettings()

logger = logging.getLogger("moorage.queue")
STRENGTH = attrgetter("value")


def members_of(entry: QueuedPodInfo) -> list[QueuedPodInfo]:
    """Return the pods of an entry: of a group, or the pod itself."""
    return list(entry.members.values()) if isinstance(entry, QueuedGroupInfo) else [entry]


class SchedulingQueue:
    """The pods that wait for a node, by UID. Thread-safe; the queue has no threads of its own.

    Parameters
    ----------
    frameworks : sequence of Framework
        One for each profile. The QueueSort plugin of the first one orders the queue; pods without a scheduler
        name belong to it.
    clock : callable
        Returns seconds.
    nominator : PodNominator, optional
        Receives the nominations of the pods here.
    lock : re-entrant lock, optional
        That of the cache, which plugins may take when the queue asks them; by default the queue has its own.

    Attributes
    ----------
    hints : Hints
        The events that plugins have registered.
    pod_events : PodEvents
        Those of the release.
    nominator : PodNominator
    pops_from_backoff, groups_pods : bool
    initial_backoff : float
        The shortest backoff, in seconds.
    """

    def __init__(
        self,
        frameworks: Sequence[Framework],
        clock: Callable[[], float],
        settings: QueueSettings = DEFAULTS,
        nominator: PodNominator | None = None,
        lock: FastRLock | None = None,
    ) -> None:
        by_name = {framework.profile.scheduler_name: framework for framework in frameworks}
        by_name.setdefault("", frameworks[0])
        self.hints = Hints(by_name)
        self.pod_events = self.hints.pod_events
        self.pops_from_backoff = settings.pop_from_backoff
        self.groups_pods = settings.groups_pods
        self.nominator = PodNominator() if nominator is None else nominator
        self._clock = clock
        self._lock = FastRLock() if lock is None else lock
        self._changed = Condition(self._lock)
        self._waiting, self._closed = 0, False
        self._listeners: dict[ClusterEvent, tuple[UnschedulablePods, int, Listeners]] = {}  # see `_listening`
        self._queue = PriorityQueue(
            frameworks[0].queue_sort_func(),
            {name: framework.pre_enqueues for name, framework in by_name.items()},
            self.nominator,
            clock,
            self.hints.classes,
            settings,
        )
        self._in_flight = self._queue.in_flight
        self._timers = Timers(self._queue, clock())

    # ---- reading -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of waiting pods in all places."""
        return len(self._queue.infos)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the waiting pod of a UID; None for one that is unknown or in flight.

        Parameters
        ----------
        uid : str
            UID of a pod.
        """
        return self._queue.infos.get(uid)

    def pending_pods(self) -> PendingPods:
        """Return all waiting pods by place."""
        with self._lock:
            return self._queue.pending()

    def count_incoming(self) -> Counter[tuple[str, str]]:
        """Count the pods that enter a queue from now on.

        Returns
        -------
        Counter
            By queue (active, backoff or unschedulable) and label of the event. The queue adds to it.
        """
        with self._lock:
            if self._queue.incoming is None:
                self._queue.incoming = Counter()
            return self._queue.incoming

    def now(self) -> float:
        """Return the time of the queue's clock, in seconds."""
        return self._queue.now()

    def inactive(self) -> list[QueuedPodInfo]:
        """Return all waiting pods but those in the active queue."""
        with self._lock:
            return list(chain(*self._queue.inactive()))

    def in_flight(self) -> list[QueuedPodInfo]:
        """Return the pods whose attempt has not ended, in the order in which they were popped."""
        with self._lock:
            return list(self._in_flight)

    def in_flight_pod(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod in flight of a UID, or None.

        Parameters
        ----------
        uid : str
            UID of a pod.
        """
        with self._lock:
            return self._in_flight.get(uid)

    def is_in_flight(self, info: QueuedPodInfo) -> bool:
        """Whether the attempt of a popped pod has not ended."""
        with self._lock:
            return self._in_flight.has(info)

    def in_flight_events(self) -> list[Observed]:
        """Return the events that some pod in flight may still need."""
        with self._lock:
            return self._in_flight.events

    def backoff_until(self, info: QueuedPodInfo) -> float | None:
        """Return when the backoff of a pod ends, in seconds; None for a pod without backoff.

        Returns
        -------
        float or None
            Seconds.
        """
        until = self._queue.backoff.until(self._queue.entry_of(info))
        return until / MICROSECONDS if until else None

    def is_listening(self) -> bool:
        """Whether an event can have an effect: some pod is unschedulable or in flight."""
        return bool(self._queue.unschedulable.by_rejection or self._in_flight)

    @property
    def has_unschedulable(self) -> bool:
        """Whether some pod waits for an event, or for what keeps it out of the queue."""
        return bool(self._queue.unschedulable.by_rejection)

    # ---- adding, updating and deleting ---------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """Add a new pod without a node."""
        with self._lock:  # `run_periodic` replaces the time under this lock
            self.add_infos([QueuedPodInfo(pod, self._queue.now())])

    def add_infos(self, infos: Iterable[QueuedPodInfo], until_gated: bool = False) -> None:
        """Add new pods with given entries, one after the other.

        Parameters
        ----------
        infos : iterable of QueuedPodInfo
            Each replaces the entry of its UID, if there is one.
        until_gated : bool, optional
            Whether to end after the first pod that PreEnqueue gates, before the next one is taken.
        """
        with self._lock:
            self._in_flight.note_addition()
            if self._queue.add_new(iter(infos), self.pod_events.added.label, until_gated):
                self._wake()

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node. An unschedulable one moves if a hint answers Queue.

        Parameters
        ----------
        old, new : Pod
            The states before and after.
        """
        with self._lock:
            uid = new.metadata.uid
            if uid in self._in_flight:
                for event in self.pod_events.of_update(old, new):
                    self._in_flight.observe(event, old, new)
                return
            info = self._queue.infos.get(uid)
            if info is None:
                info = QueuedPodInfo(new, self._queue.now())
                moved = self._queue.enter(info, self.pod_events.updated.label)
            else:
                self._queue.replace(info, new, self.pod_events.updated.label)
                self.nominator.update_nominated_pod(old, new)
                moved = info.place is Place.UNSCHEDULABLE and self._reconsider(info, old, new)
            if moved:
                self._wake()

    def _reconsider(self, info: QueuedPodInfo, old: Pod, new: Pod) -> bool:
        """Move an unschedulable pod, or its group, if a hint answers Queue for its update; return whether it
        has moved."""
        entry, ask = self._queue.entry_of(info), self.hints.strategy
        members = members_of(entry)
        for event in self.pod_events.of_update(old, new):
            strategy = max((ask(one, event, old, new) for one in members), key=STRENGTH)
            if strategy is not Strategy.SKIP and self._queue.requeue(entry, strategy, event.label):
                return True
        return False

    def delete(self, *pods: Pod) -> None:
        """Remove pods that are deleted or have a node now. A pod in flight stays there until its attempt
        ends.
        """
        with self._lock:
            infos, nominated = self._queue.infos, self.nominator.nodes
            for pod in pods if nominated else ():
                if pod.metadata.uid in nominated:
                    self.nominator.delete_nominated_pod_if_exists(pod)
            for info in entries_of(infos, pods):
                self._queue.remove(info, self.pod_events.added.label)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods, with the others of their groups, to the active queue, regardless of hints and backoff.

        Parameters
        ----------
        pods : iterable of Pod
            A gated pod stays if PreEnqueue still rejects it. For a pod in flight the event is recorded.
            Unknown pods are ignored.
        """
        with self._lock:
            moved = False
            for pod in pods:
                uid = pod.metadata.uid
                info = self._queue.infos.get(uid)
                if info is None and uid in self._in_flight:
                    self._in_flight.observe(FORCE_ACTIVATE, None, pod)
                if info is None:
                    continue
                entry = self._queue.entry_of(info)
                if entry.place not in (None, Place.ACTIVE):
                    moved |= self._queue.to_active(entry, FORCE_ACTIVATE.label, entry.place in BACKOFFS)
            if moved:
                self._wake()

    # ---- attempts ------------------------------------------------------------------------------------------

    def pop(self, timeout: float | None = None) -> QueuedPodInfo | None:
        """Remove the next pod from the queue. It is in flight until `done` or until it returns to the queue.

        Parameters
        ----------
        timeout : float, optional
            How long to wait for a pod, in seconds of real time; 0 does not wait. By default it waits until
            `close`.

        Returns
        -------
        QueuedPodInfo or None
            None when the time is over, or when the queue is closed and empty.

        Raises
        ------
        MoorageError
            A group of several pods is next, which stays in the queue.
        """
        infos = self.pop_unit(timeout)
        if len(infos) > 1:
            self.put_back(*infos)
            key = "/".join(cast(UnitKey, infos[0].unit))
            raise MoorageError(f"The pods of group {key} are popped together: call pop_unit")
        return infos[0] if infos else None

    def pop_unit(self, timeout: float | None = None) -> list[QueuedPodInfo]:
        """Remove the next pod, or all pods of the next group, whose attempt `end_attempts` ends.

        Parameters
        ----------
        timeout : float, optional
            Seconds, as for `pop`.

        Returns
        -------
        list of QueuedPodInfo
            In the order of `group_order`. Empty where `pop` returns None.
        """
        with self._lock:
            while not (infos := self._pop_many(1)):
                if timeout == 0 or not self._wait(timeout):  # a wait releases a single hold of the lock
                    break
            return infos

    def pop_batch(self, limit: int) -> list[QueuedPodInfo]:
        """Remove the next pods, without waiting.

        Parameters
        ----------
        limit : int
            At least 1.

        Returns
        -------
        list of QueuedPodInfo
            Up to `limit` pods, and up to a change of place or priority. Where groups are ignored, those that
            calls of `pop` would return; else those of `pop_unit`, all without a group or all of groups, of
            which the last one may exceed the limit.
        """
        with self._lock:
            return self._pop_many(limit)

    def _pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Remove the next pods from the queue and put them in flight."""
        while True:
            infos, place = self._queue.pop_many(limit)
            if not infos or self._enter_flight(infos, place):
                return infos

    def _enter_flight(self, infos: list[QueuedPodInfo], place: Place) -> list[QueuedPodInfo]:
        """Put popped pods in flight, and return them; those that are so already are removed."""
        for info in self._in_flight.take(infos, place, self._queue.infos):
            logger.error("pod %s is in flight already and is discarded", info.pod.key)
            infos.remove(info)
        return infos

    def _wait(self, timeout: float | None) -> bool:
        """Wait for a pod; return False at the timeout or when the queue is closed."""
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._closed or self._queue.has_next(), timeout)
            return self._queue.has_next()
        finally:
            self._waiting -= 1

    def _wake(self) -> None:
        """Wake the threads that wait for a pod."""
        if self._waiting:
            self._changed.notify_all()

    def end_attempts(
        self, infos: Sequence[QueuedPodInfo], succeeded: bool = True, is_error: bool = False
    ) -> None:
        """End the attempts of groups, after their failed pods were given back: these return to the queue
        (kube-scheduler v1.37, AddAttemptedPodGroupIfNeeded).

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            All pods that were popped with the groups.
        succeeded : bool, optional
            Then the pods that are left are tried again at once, and keep the age of the group.
        is_error : bool, optional
            Whether the attempts failed with an error.
        """
        with self._lock:
            groups = dict.fromkeys(info.group for info in infos)
            for info in infos:
                info.group = None
            for group in groups:
                if group is not None and group.size and group.place is None:  # else it was put back
                    self._queue.return_group(group, succeeded, is_error)
            self._wake()

    def put_back(self, *infos: QueuedPodInfo) -> None:
        """Return popped pods that were not tried to their former place, as if they had not been popped.

        Raises
        ------
        MoorageError
            A pod is not in flight. The pods before it have returned.
        """
        with self._lock:
            returned: list[QueuedPodInfo] = []
            try:
                for info in sorted(infos, key=_arrival):
                    place = self._in_flight.place(info)
                    if place is None or info.place is not None:
                        raise MoorageError(f"Pod {info.pod.key} is not in flight")
                    info.attempts -= 1
                    self._queue.put_back(info, place, self.pod_events.added.label)
                    returned.append(info)
            finally:
                self._in_flight.finish(returned)
            self._wake()

    def done(self, *uids: str) -> None:
        """End the attempts of pods.

        Parameters
        ----------
        *uids : str
            Those that are not in flight are ignored.
        """
        with self._lock:
            self._in_flight.done(*uids)

    def finish(self, infos: list[QueuedPodInfo]) -> None:
        """End the attempts of popped pods.

        Parameters
        ----------
        infos : list of QueuedPodInfo
            Those that are not in flight are ignored.
        """
        with self._lock:
            self._in_flight.finish(infos)

    def save(self) -> object:
        """Return the state of all pods, for `undo`."""
        with self._lock:
            return self._queue.save(), self._in_flight.save(), self._timers.save(), self.nominator.save()

    def undo(self, saved: object) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        with self._lock:
            waiting, in_flight, timers, nominated = cast(Any, saved)
            self._in_flight.undo(in_flight)
            self._queue.undo(waiting)
            self._timers.undo(timers)
            self.nominator.undo(nominated)

    def copy_from(self, other: SchedulingQueue) -> None:
        """Take copies of the pods of another queue, and its nominations.

        Parameters
        ----------
        other : SchedulingQueue
            With the same plugins.
        """
        with other._lock, self._lock:
            self._in_flight.copy_from(other._in_flight)
            self._queue.copy_from(other._queue)
            self._timers.undo(other._timers.save())
            self.nominator.undo(other.nominator.save())

    def repair(self) -> None:
        """Make all places consistent after an exception that may have interrupted an operation.

        `PriorityQueue.infos` decides. A pod that was between two places then is in none.
        """
        with self._lock:
            self._queue.rebuild()
            self._in_flight.rebuild(self._queue.infos)
            self.nominator.rebuild()

    def give_back(
        self,
        infos: list[QueuedPodInfo],
        latest: list[Pod | None],
        rejectors: Sequence[tuple[frozenset[str], frozenset[str]]],
        nominating: Sequence[NominatingInfo | None] | None = None,
    ) -> None:
        """Return popped pods whose attempts failed, one after the other, and end the attempts (kube-scheduler
        v1.36, schedule_one.go handleSchedulingFailure and AddUnschedulablePodIfNotPresent).

        A pod with rejectors becomes unschedulable, unless an event since its pop makes it worth another
        attempt. Such a pod, and one without rejectors (after an error), backs off. A pod that was deleted or
        has a node does not return, nor one that is not in flight. A pod of a group returns with the group, at
        the end of the group's attempt; where that has ended, it joins the group in the queue.

        Parameters
        ----------
        latest : list of Pod or None
            The latest state of each pod, by namespace and name; None for none.
        rejectors : sequence of (frozenset of str, frozenset of str)
            The plugins that rejected each pod, and those among them that answered Pending; empty after an
            error.
        nominating : sequence of (NominatingInfo or None), optional
            The change of each pod's nomination; without one its latest status decides.
        """
        with self._lock:
            nominator, at = self.nominator, 0
            while at < len(infos):
                first, at = at, self._queue.reject(infos, latest, rejectors, at)
                returned, single = infos[first:at], at < len(infos)
                if single:
                    if self._return(infos[at], latest[at], rejectors[at]):
                        returned.append(infos[at])
                    at += 1
                for number, info in enumerate(returned, first) if nominator.nodes or single else ():
                    change = nominating[number] if nominating else None
                    if nominator.is_changed_by(info.pod, change):
                        nominator.nominate_current(info.pod, change)
            self._wake()

    def _return(
        self, info: QueuedPodInfo, latest: Pod | None, rejectors: tuple[frozenset[str], frozenset[str]]
    ) -> bool:
        """Return one pod as `give_back` does; return whether it exists and has no node."""
        queue, in_flight, uid = self._queue, self._in_flight, info.uid
        if not in_flight.has(info):
            return False
        returns = latest is not None and latest.metadata.uid == uid and not latest.spec.node_name
        returns = returns and cast(Pod, latest).status.phase not in FINISHED
        known = queue.infos.get(uid)
        if returns:
            info.pod = cast(Pod, latest)
        label = self.pod_events.added.label
        if returns and known is not None and known.place is not None:
            logger.error("Pod %s is already present in %s", info.pod.key, QUEUES[known.place])
        elif returns:  # if the clock raises, the pod stays in flight
            info.note_failure(rejectors, queue.now())
            if info.unit is None:
                strategy = self._strategy_after_attempt(info)
                queue.requeue(info, strategy, SCHEDULE_ATTEMPT_FAILURE)
            elif info.group is not None and info.group.place is None:
                queue.add_member(info.group, info)
            else:
                info.group = None
                queue.join(info, group_of(info.pod) or info.unit, label)
        in_flight.finish([info])
        return returns

    def _strategy_after_attempt(self, info: QueuedPodInfo) -> Strategy:
        """Return the strategy for a failed pod, from the events since its pop."""
        if not info.rejectors:
            return Strategy.AFTER_BACKOFF
        return self.hints.strategy_of_all(info, self._in_flight.since_pop(info.uid))

    # ---- events --------------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, check: Callable[[Pod], bool] | None = None
    ) -> None:
        """Move the unschedulable pods that an event makes worth another attempt; record it for pods in
        flight.

        Parameters
        ----------
        old, new : object or None
            The object before and after; None where it was added or deleted.
        check : callable, optional
            False for pods that stay.
        """
        with self._lock:
            listeners = self._listening(event)
            if not (listeners or self._in_flight) or not self.hints.is_registered(event):
                return
            moves = possible_moves(self._queue, self.hints, listeners, event, old, new)
            if check is not None:
                moves = [move for move in moves if check(move[1].pod)]
            self._sweep(moves, event, old, new)

    def regroup(self, keys: Iterable[UnitKey], deleted: UnitKey | None = None) -> None:
        """Find the groups of waiting pods anew; see `PriorityQueue.regroup`."""
        with self._lock:
            self._queue.regroup(keys, deleted, self.pod_events.added.label)
            self._wake()

    def move_all_for_each(self, event: ClusterEvent, news: Iterable[Any]) -> None:
        """Move pods as for one event after the other; `news` are read while the event can have an effect."""
        with self._lock:
            left = iter(news)
            while self.may_react(event) and (new := next(left, None)) is not None:
                self.move_all_to_active_or_backoff_queue(event, None, new)

    def record_evictions(self, evictions: Iterable[tuple[Notice[Pod], Notice[Pod]]]) -> None:
        """Record the changes and deletions of pods for the pods in flight, where no pod is unschedulable."""
        with self._lock:
            hears = self.hints.is_registered
            heard = [event if hears(event) else None for event in (ASSIGNED_POD_UPDATE, ASSIGNED_POD_DELETE)]
            self._in_flight.observe_evictions(evictions, *heard)

    def follow_nominations(self, notices: Iterable[Notice[Pod]]) -> int:
        """Enter the leading pods whose nomination, which the queue knows, was written to their status; return
        their number.
        """
        nominator = self.nominator
        with self._lock, nominator.lock:
            self._queue.changes += 1
            return self._queue.follow_nominations(notices, nominator.nodes, nominator.by_node)

    def record_run(self, event: ClusterEvent, notices: Iterable[Notice[Any]]) -> int:
        """Record an event of leading objects for pods in flight, if no other can react; return how many."""
        with self._lock:
            if self._listening(event) or self._queue.groups:
                return 0
            return self._in_flight.observe_run(event if self.hints.is_registered(event) else None, notices)

    def may_react(self, event: ClusterEvent) -> bool:
        """Whether an event can have an effect: a pod is in flight, or a hint may move another one."""
        with self._lock:
            return bool(self._in_flight or self._listening(event))

    def _listening(self, event: ClusterEvent) -> Listeners:
        """Return the unschedulable pods that an event may move, by rejection; remembered until the rejections
        change."""
        unschedulable = self._queue.unschedulable
        known = self._listeners.get(event)
        if known is None or known[0] is not unschedulable or known[1] != unschedulable.version:
            meaning, listeners = self.hints.meaning, []
            for rejection, rejected in unschedulable.by_rejection.items():
                if (means := meaning(rejection, event)).may_move:
                    listeners.append((rejected, means))
            known = self._listeners[event] = unschedulable, unschedulable.version, listeners
        return known[2]

    def _sweep(self, moves: Iterable[PossibleMove], event: ClusterEvent, old: Any, new: Any) -> None:
        """Move the pods for which a hint returns Queue, and record the event for the pods in flight."""
        moved, ask = False, self.hints.strategy
        decided = [(strategy or ask(info, event, old, new), info) for _, info, strategy in moves]
        if self._queue.groups:
            decided = self._of_entries(decided)
        for strategy, part in groupby(decided, itemgetter(0)):
            if strategy is not Strategy.SKIP:
                moved |= self._queue.requeue_all([info for _, info in part], strategy, event.label)
        self._in_flight.observe(event, old, new)
        if moved:
            self._wake()

    def _of_entries(
        self, decided: Sequence[tuple[Strategy, QueuedPodInfo]]
    ) -> list[tuple[Strategy, QueuedPodInfo]]:
        """Return the strategies of entries: of a group the strongest that one of its pods has."""
        found: dict[QueuedPodInfo, Strategy] = {}
        for strategy, info in decided:
            entry = self._queue.entry_of(info)
            found[entry] = max(found.get(entry, strategy), strategy, key=STRENGTH)
        return [(strategy, entry) for entry, strategy in found.items()]

    # ---- timers --------------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Move the pods whose backoff has ended to the active queue."""
        with self._lock:
            moved = False
            for info in self._queue.pop_completed():
                moved |= self._queue.to_active(info, BACKOFF_COMPLETE, True)
            if moved:
                self._wake()

    def flush_unschedulable_left_over(self) -> None:
        """Move the pods that have been unschedulable for more than 5 minutes; gated pods stay, or PreEnqueue
        is asked again (`Release.gated_pods_time_out`)."""
        with self._lock:
            now = self._queue.now()
            entries = self._queue.older_than(microseconds(now) - MAX_UNSCHEDULABLE)
            if not entries:
                return
            self._queue.changes += 1
            event, meaning = UNSCHEDULABLE_TIMEOUT, self.hints.meaning
            infos = [one for entry in entries for one in members_of(entry)]
            for info in infos:
                info.was_flushed = True
            for entry in entries if self.hints.gated_pods_time_out else ():
                entry.flushed_at = now
            moving = [one for one in entries if meaning(rejection_of(one), event).may_move]
            self._sweep([(one.order, one, None) for one in moving], event, None, None)
            if self.hints.gated_pods_time_out:
                for info in infos:
                    info.was_flushed = not info.gating_plugin

    def next_event(self) -> float | None:
        """Return when a timer will next move a pod, in seconds; None if there is no such time."""
        with self._lock:
            at = min(self._timers.backoff(), self._timers.left_over(gated=False))
            return None if at == NEVER else at / MICROSECONDS

    def run_periodic(self, now: float) -> None:
        """Run the two timers up to a time, in order of time (see `Timers`).

        Parameters
        ----------
        now : float
            Seconds.
        """
        with self._lock:
            try:
                # Even where gated pods stay, their timeout is an event for pods in flight.
                gated = self.hints.gated_pods_time_out or bool(self._in_flight)
                for at, is_backoff in self._timers.until(now, gated):
                    self._queue.now = partial(float, at)
                    if is_backoff:
                        self.flush_backoff_completed()
                    else:
                        self.flush_unschedulable_left_over()
            finally:
                self._queue.now = self._clock

    def close(self) -> None:
        """Close the queue: threads in `pop` return, and every attempt ends."""
        with self._lock:
            self._closed = True
            self._in_flight.finish(list(self._in_flight))
            self._changed.notify_all()


def _arrival(info: QueuedPodInfo) -> int:
    """Where a popped pod was among those of its group, whose first sets its priority; 0 without a group."""
    return 0 if info.group is None else info.order
