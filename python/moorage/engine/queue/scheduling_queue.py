"""SchedulingQueue: the order of the waiting pods, and the events and timers that move failed pods back.

kube-scheduler v1.36, backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key, partial
from itertools import chain
from operator import attrgetter
from threading import Condition
from typing import Any, NamedTuple, cast

from fastrlock.rlock import FastRLock
from msgspec import Struct

from moorage import forked_owners
from moorage._core.base.watch_events import Notice
from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import KeyedHeap, Place, PriorityLanes, QueuedPodInfo, Strategy
from moorage._core.queue.unschedulable_pods import UnschedulablePods, rejection_of
from moorage._core.queue.unschedulable_pods import microseconds as microseconds
from moorage.kube import Pod, UnitKey

from ..framework import ClusterEvent, Framework, NominatingInfo, PodNominator, QueuedPod
from ..framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT
from .hints import Gates, Hints, Listeners, Observed, PossibleMove, possible_moves

# ---- active queue ------------------------------------------------------------------------------------------
# The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.
#
# kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order in which they entered;
# upstream's heap leaves their order open.

Less = Callable[[QueuedPod, QueuedPod], bool]


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """Compare two pods by PrioritySort: higher priority first, then the earlier timestamp.

    Parameters
    ----------
    self : object
        The plugin; unused.

    Returns
    -------
    bool
        Whether `a` comes before `b`.
    """
    ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
    return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)


def active_queue(less: Less) -> Callable[[], PriorityLanes | KeyedHeap]:
    """Return what makes an empty queue in the order of a QueueSort plugin, by its `less`."""
    if getattr(less, "__func__", None) is by_priority:
        return PriorityLanes

    def compare(a: QueuedPodInfo, b: QueuedPodInfo) -> int:
        return -1 if less(a, b) else 1 if less(b, a) else a.order - b.order

    key = cmp_to_key(compare)
    return partial(KeyedHeap, lambda info: (key(info),))


# ---- timers ------------------------------------------------------------------------------------------------
# The two timers of the queue. Upstream runs them in goroutines; here they fire when the scheduler calls
# them.

MICROSECONDS = 1_000_000
NEVER = 1 << 62
FLUSH_PERIOD = 30 * MICROSECONDS
MAX_UNSCHEDULABLE = 5 * 60 * MICROSECONDS


class Timers:
    """The next times at which the backoff timer and the unschedulable timer move pods, in whole microseconds.

    The backoff timer visits the backoff queue at each whole second. The unschedulable timer visits the
    unschedulable pods every 30 seconds from the beginning (kube-scheduler v1.36,
    backend/queue/scheduling_queue.go Run).

    Parameters
    ----------
    began : float
        Time of the beginning in seconds.
    """

    def __init__(self, queue: PodQueue, began: float) -> None:
        self._queue = queue
        self._began = self._looked_at_backoff = self._looked_at_left_over = microseconds(began)

    def save(self) -> object:
        """Return when the timers last fired, for `undo`."""
        return self._looked_at_backoff, self._looked_at_left_over

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        self._looked_at_backoff, self._looked_at_left_over = cast("tuple[int, int]", saved)

    def backoff(self) -> int:
        """Return the next time at which the backoff timer moves a pod.

        Returns
        -------
        int
            Microseconds; `NEVER` if no pod backs off.
        """
        end = self._queue.backoff.next_end()
        if end is None:
            return NEVER
        return (max(end, self._looked_at_backoff) // MICROSECONDS + 1) * MICROSECONDS

    def left_over(self, gated: bool) -> int:
        """Return the next time at which the unschedulable timer moves a pod.

        Parameters
        ----------
        gated : bool
            Whether gated pods count. Up to v1.36 the timer does not move them, but their timeout is an event
            for pods in flight; since v1.37 they are asked again.

        Returns
        -------
        int
            Microseconds; `NEVER` where no pod waits.
        """
        oldest = self._queue.oldest(gated)
        if oldest is None:
            return NEVER
        after = max(microseconds(oldest) + MAX_UNSCHEDULABLE, self._looked_at_left_over) - self._began
        return self._began + (after // FLUSH_PERIOD + 1) * FLUSH_PERIOD

    def until(self, now: float, gated: bool) -> Iterator[tuple[float, bool]]:
        """Iterate over the times at which a timer has work, up to a time.

        The caller does the work of each time before it asks for the next.

        Parameters
        ----------
        now : float
            The last time, in seconds.
        gated : bool
            As for `left_over`.

        Yields
        ------
        at : float
            Seconds.
        is_backoff : bool
            Whether the timer is the backoff timer.
        """
        end = microseconds(now)
        while (at := min(self.backoff(), self.left_over(gated))) <= end:
            is_backoff = at == self.backoff()
            if is_backoff:
                self._looked_at_backoff = at
            else:
                self._looked_at_left_over = at
            yield at / MICROSECONDS, is_backoff
        self._looked_at_backoff = max(self._looked_at_backoff, end)
        self._looked_at_left_over = max(self._looked_at_left_over, end)


# ---- scheduling queue --------------------------------------------------------------------------------------

STRENGTH = attrgetter("value")


class PendingPods(NamedTuple):
    """The waiting pods by place.

    Attributes
    ----------
    active, backoff, error_backoff : list of QueuedPodInfo
        In the order in which they would be popped. The last two are backing off after a rejection and after
        an error.
    unschedulable, gated : list of QueuedPodInfo
        In the order in which they entered. Gated pods are rejected by PreEnqueue.
    """

    active: list[QueuedPodInfo]
    backoff: list[QueuedPodInfo]
    error_backoff: list[QueuedPodInfo]
    unschedulable: list[QueuedPodInfo]
    gated: list[QueuedPodInfo]


def alone(key: UnitKey) -> UnitKey:
    """Return the key of a group that belongs to no tree."""
    return key


class QueueSettings(Struct, frozen=True):
    """Settings of the queue.

    Attributes
    ----------
    initial_backoff, max_backoff : float
        The backoff after the first failure and the longest one, in seconds; it doubles with each failure. A
        maximum of 0 turns backoff off.
    pop_from_backoff : bool
        An empty active queue takes pods from the backoff queue (gate SchedulerPopFromBackoffQ).
    groups_pods : bool
        Pods of a group are tried together (gate GenericWorkload).
    top_of : callable
        Returns the group at the top of a group's tree, whose pods are tried together; default: the group.
    nominates_gated : bool
        Pods that PreEnqueue gates are nominated to the node of their status.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    pop_from_backoff: bool = True
    groups_pods: bool = False
    top_of: Callable[[UnitKey], UnitKey] = alone
    nominates_gated: bool = False


DEFAULTS = QueueSettings()


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
    settings : QueueSettings
    groups_pods : bool
        That of the settings.
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
        self.settings, self.groups_pods = settings, settings.groups_pods
        self.nominator = PodNominator() if nominator is None else nominator
        self._clock = clock
        self._lock = FastRLock() if lock is None else lock
        forked_owners.watch(self, self._lock)
        self._changed = Condition(self._lock)
        self._waiting, self._closed = 0, False
        self._listeners: dict[ClusterEvent, tuple[UnschedulablePods, int, Listeners]] = {}  # see `_listening`
        active = active_queue(frameworks[0].queue_sort_func())
        gates = Gates({name: framework.pre_enqueues for name, framework in by_name.items()})
        self._queue = PodQueue(settings, active, gates, self.hints, self.nominator, clock)
        self._timers = Timers(self._queue, clock())

    # ---- reading -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of waiting pods in all places."""
        return len(self._queue.infos)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the waiting pod of a UID; None for one that is unknown or in flight."""
        return self._queue.infos.get(uid)

    def pending_pods(self) -> PendingPods:
        """Return all waiting pods by place."""
        with self._lock:
            return PendingPods(*self._queue.pending())

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
            return list(self._queue.in_flight)

    def in_flight_pod(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod in flight of a UID, or None."""
        with self._lock:
            return self._queue.in_flight.get(uid)

    def in_flight_events(self) -> list[Observed]:
        """Return the events that some pod in flight may still need."""
        with self._lock:
            return self._queue.in_flight.events

    def backoff_until(self, info: QueuedPodInfo) -> float | None:
        """Return when the backoff of a pod ends, in seconds; None for a pod without backoff."""
        until = self._queue.backoff.until(self._queue.entry_of(info))
        return until / MICROSECONDS if until else None

    def is_listening(self) -> bool:
        """Whether an event can have an effect: some pod is unschedulable or in flight."""
        return self.has_unschedulable or len(self._queue.in_flight) > 0

    @property
    def has_unschedulable(self) -> bool:
        """Whether some pod waits for an event, or for what keeps it out of the queue."""
        return self._queue.unschedulable.size > 0

    # ---- pods come, change and go --------------------------------------------------------------------------

    def add(self, pods: Iterable[Pod | QueuedPodInfo], until_gated: bool = False) -> None:
        """Add new pods without a node, one after the other.

        Parameters
        ----------
        pods : iterable of (Pod or QueuedPodInfo)
            Pods, which come now, or entries. Each replaces the entry of its UID, if there is one.
        until_gated : bool, optional
            Whether to end after the first pod that PreEnqueue gates, before the next one is taken.
        """
        with self._lock:  # `run_periodic` replaces the time under this lock
            self._queue.add(pods, self.pod_events.added.label, until_gated)
            self._wake()

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node. An unschedulable one moves if a hint answers Queue.

        Parameters
        ----------
        old, new : Pod
            The states before and after.
        """
        with self._lock:
            queue, uid, label = self._queue, new.metadata.uid, self.pod_events.updated.label
            if uid in queue.in_flight:
                for event in self.pod_events.of_update(old, new):
                    queue.in_flight.observe(event, Notice(old, new))
            elif (info := queue.infos.get(uid)) is None:
                queue.add([new], label)
            else:
                queue.replace(info, new, label)
                self.nominator.update_nominated_pod(old, new)
                if info.place is Place.UNSCHEDULABLE:
                    self._reconsider(info, old, new)
            self._wake()

    def _reconsider(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        """Move an unschedulable pod, or its group, if a hint answers Queue for its update."""
        entry, ask = self._queue.entry_of(info), self.hints.strategy
        for event in self.pod_events.of_update(old, new):
            strategy = max((ask(member, event, old, new) for member in entry.ordered()), key=STRENGTH)
            if strategy is not Strategy.SKIP:
                self._queue.requeue([(strategy, entry)], event.label)
                if entry.place is not Place.UNSCHEDULABLE:
                    return

    def delete(self, pods: Iterable[Pod]) -> None:
        """Remove pods that are deleted or have a node now. A pod in flight stays there until its attempt
        ends."""
        with self._lock:
            nominated = self.nominator.nodes
            for pod in pods if nominated else ():
                if pod.metadata.uid in nominated:
                    self.nominator.delete_nominated_pod_if_exists(pod)
            self._queue.delete(pods)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods, with the others of their groups, to the active queue, regardless of hints and backoff.

        A gated pod stays if PreEnqueue still rejects it. For a pod in flight the event is recorded. Unknown
        pods are ignored.
        """
        with self._lock:
            for pod in pods:
                if (info := self._queue.infos.get(pod.metadata.uid)) is not None:
                    self._queue.activate(info, FORCE_ACTIVATE.label)
                elif pod.metadata.uid in self._queue.in_flight:
                    self._queue.in_flight.observe(FORCE_ACTIVATE, Notice(None, pod))
            self._wake()

    def regroup(self, keys: Iterable[UnitKey], deleted: UnitKey | None = None) -> None:
        """Find the groups of waiting pods anew, after a change of the groups. Pods that belong to another one
        now, and those of a group that was deleted, enter as new ones.

        Parameters
        ----------
        keys : iterable of UnitKey
            The groups whose pods may belong to others now.
        deleted : UnitKey, optional
            The group that was deleted, if one was.
        """
        with self._lock:
            self._queue.regroup(keys, deleted)
            self._wake()

    # ---- attempts ------------------------------------------------------------------------------------------

    def pop(self, limit: int = 1, timeout: float | None = 0.0) -> list[QueuedPodInfo]:
        """Remove the next pods from the queue. They are in flight until `done` or until they return to the
        queue.

        Parameters
        ----------
        limit : int, optional
            The number of pods without a group at most, at least 1.
        timeout : float, optional
            How long to wait for a pod, in seconds of real time; by default the call does not wait. None waits
            until `close`.

        Returns
        -------
        list of QueuedPodInfo
            Those that calls one by one would return, up to a change of place or priority. Where groups are
            tried together, either pods without a group, or all pods of each group, in the order of
            `group_order`; the last group may exceed the limit. Empty when the time is over, or when the queue
            is closed and empty.
        """
        with self._lock:
            while not (infos := self._queue.pop(limit)):
                if timeout == 0 or not self._wait(timeout):  # a wait releases a single hold of the lock
                    break
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

    def done(self, infos: Iterable[QueuedPodInfo]) -> None:
        """End the attempts of popped pods. Those that are not in flight are ignored."""
        with self._lock:
            self._queue.done(infos)

    def give_back(
        self,
        infos: Sequence[QueuedPodInfo],
        latest: Sequence[Pod | None],
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
        latest : sequence of Pod or None
            The latest state of each pod, by namespace and name; None for none.
        rejectors : sequence of (frozenset of str, frozenset of str)
            The plugins that rejected each pod, and those among them that answered Pending; empty after an
            error.
        nominating : sequence of (NominatingInfo or None), optional
            The change of each pod's nomination; without one its latest status decides.
        """
        with self._lock:
            self._queue.now = partial(float, self._clock())  # they return at one time
            try:
                self._queue.give_back(infos, latest, rejectors, nominating)
            finally:
                self._queue.now = self._clock
            self._wake()

    def put_back(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Return popped pods that were not tried to their former place, as if they had not been popped. Those
        that are not in flight are ignored."""
        with self._lock:
            self._queue.put_back(infos)
            self._wake()

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
            self._queue.end_attempts(infos, succeeded, is_error)
            self._wake()

    # ---- transactions --------------------------------------------------------------------------------------

    def save(self) -> object:
        """Return the state of all pods, for `undo`."""
        with self._lock:
            return self._queue.save(), self._timers.save(), self.nominator.save()

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        with self._lock:
            pods, timers, nominated = cast(Any, saved)
            self._queue.undo(pods)
            self._timers.undo(timers)
            self.nominator.undo(nominated)

    def copy_from(self, other: SchedulingQueue, waiting: bool = True) -> None:
        """Take copies of the pods of another queue, unless only the nominations are wanted, and those.

        Parameters
        ----------
        other : SchedulingQueue
            With the same plugins.
        """
        with other._lock, self._lock:
            if waiting:
                self._queue.copy_from(other._queue)
                self._timers.undo(other._timers.save())
            self.nominator.undo(other.nominator.save())

    def repair(self) -> None:
        """Make all places consistent after an exception that may have interrupted an operation.

        A pod that was between two places then is in none.
        """
        with self._lock:
            self._queue.repair()
            self.nominator.rebuild()

    # ---- events --------------------------------------------------------------------------------------------

    def move_all(
        self, event: ClusterEvent, changes: Iterable[Notice[Any]], check: Callable[[Pod], bool] | None = None
    ) -> None:
        """Move the unschedulable pods that an event makes worth another attempt; record it for pods in flight
        (kube-scheduler v1.36, MoveAllToActiveOrBackoffQueue).

        Parameters
        ----------
        changes : iterable of Notice
            The objects of the event, one after the other; read while the event can have an effect.
        check : callable, optional
            False for pods that stay.
        """
        with self._lock:
            left = iter(changes)
            while self.may_react(event) and self.hints.is_registered(event):
                if (change := next(left, None)) is None:
                    break
                moves = list[PossibleMove]()
                if listeners := self._listening(event):
                    old, new = change.old, change.new
                    moves = possible_moves(self._queue, self.hints, listeners, event, old, new)
                if check is not None:
                    moves = [move for move in moves if check(move[1].pod)]
                self._sweep(moves, event, change)

    def follow_nominations(self, notices: Iterable[Notice[Pod]]) -> int:
        """Enter the leading pods whose nomination, which the queue knows, was written to their status; return
        their number."""
        with self._lock, self.nominator.lock:
            return self._queue.follow_nominations(notices)

    def may_react(self, event: ClusterEvent) -> bool:
        """Whether an event can have an effect: a pod is in flight, or a hint may move another one."""
        with self._lock:
            return len(self._queue.in_flight) > 0 or bool(self._listening(event))

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

    def _sweep(self, moves: Iterable[PossibleMove], event: ClusterEvent, change: Notice[Any]) -> None:
        """Move the pods for which a hint returns Queue, and record the event for the pods in flight."""
        queue, ask = self._queue, self.hints.strategy
        decided = [
            (strategy or ask(info, event, change.old, change.new), info) for _, info, strategy in moves
        ]
        if queue.groups:
            strongest = dict[QueuedPodInfo, Strategy]()  # of a group that of one of its pods
            for strategy, info in decided:
                entry = queue.entry_of(info)
                strongest[entry] = max(strongest.get(entry, strategy), strategy, key=STRENGTH)
            decided = [(strategy, entry) for entry, strategy in strongest.items()]
        queue.requeue([move for move in decided if move[0] is not Strategy.SKIP], event.label)
        queue.in_flight.observe(event, change)
        self._wake()

    # ---- timers --------------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Move the pods whose backoff has ended to the active queue."""
        with self._lock:
            self._queue.flush_backoff()
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
            infos = [info for entry in entries for info in entry.ordered()]
            for info in infos:
                info.was_flushed = True
            for entry in entries if self.hints.gated_pods_time_out else ():
                entry.flushed_at = now
            moving = [entry for entry in entries if meaning(rejection_of(entry), event).may_move]
            self._sweep([(entry.order, entry, None) for entry in moving], event, Notice(None, None))
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
                gated = self.hints.gated_pods_time_out or len(self._queue.in_flight) > 0
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
            self._queue.done(list(self._queue.in_flight))
            self._changed.notify_all()
