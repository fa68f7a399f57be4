"""SchedulingQueue: the order of the waiting pods, and the events and timers that move failed pods back.

kube-scheduler v1.36, backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, partial
from operator import attrgetter
from typing import Any, Self

from fastrlock.rlock import FastRLock
from msgspec import Struct

from moorage import forked_owners
from moorage._core.base.watch_events import Notice
from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import KeyedHeap, Place, PriorityLanes, QueuedPodInfo, Strategy
from moorage._core.queue.unschedulable_pods import microseconds as microseconds
from moorage._core.queue.unschedulable_pods import rejection_of
from moorage.kube import Pod, UnitKey
from moorage.lazy import NamedTuple

from ..framework import ClusterEvent, Framework, PodNominator, QueuedPod
from ..framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT
from ..framework.waiting_pods import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS
from .hints import Gates, Hints, PossibleMove, possible_moves

# ---- active queue ------------------------------------------------------------------------------------------
# The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.
#
# kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order in which they entered;
# upstream's heap leaves their order open.

Less = Callable[[QueuedPod, QueuedPod], bool]


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """Compare two pods by PrioritySort: higher priority first, then the earlier timestamp.

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
# The backoff timer visits the backoff queue at each whole second. The unschedulable timer visits the
# unschedulable pods every 30 seconds from the beginning. Upstream runs them in goroutines; here they fire
# when the scheduler calls them.

MICROSECONDS = 1_000_000
NEVER = 1 << 62
FLUSH_PERIOD = 30 * MICROSECONDS
MAX_UNSCHEDULABLE = 5 * 60 * MICROSECONDS


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

    initial_backoff: float = float(INITIAL_BACKOFF_SECONDS)
    max_backoff: float = float(MAX_BACKOFF_SECONDS)
    pop_from_backoff: bool = True
    groups_pods: bool = False
    top_of: Callable[[UnitKey], UnitKey] = alone
    nominates_gated: bool = False


DEFAULTS = QueueSettings()


class SchedulingQueue(PodQueue):
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
    now : callable
        Returns the time of the queue's clock, in seconds.

    Examples
    --------
    Try the pods that backoff and hints let go, of which `Scheduler.run` would try all:

    >>> scheduler.sync()  # doctest: +SKIP
    >>> queue.run_periodic(now)  # doctest: +SKIP
    >>> while infos := queue.pop():  # doctest: +SKIP
    ...     pods = [info.pod for info in infos]
    ...     decision = scheduler.schedule_one(pods[0])
    ...     if decision.node is None:
    ...         queue.give_back(infos, pods, [decision.failure.rejectors], [decision.nominating])
    ...     else:
    ...         scheduler.bind(pods)
    ...         queue.done(infos)
    """

    _began: int

    def __new__(
        cls,
        frameworks: Sequence[Framework],
        clock: Callable[[], float],
        settings: QueueSettings = DEFAULTS,
        nominator: PodNominator | None = None,
        lock: FastRLock | None = None,
    ) -> Self:
        by_name = {framework.profile.scheduler_name: framework for framework in frameworks}
        by_name.setdefault("", frameworks[0])
        active = active_queue(frameworks[0].queue_sort_func())
        gates = Gates(by_name)
        nominator = PodNominator() if nominator is None else nominator
        lock = FastRLock() if lock is None else lock
        self = super().__new__(cls, settings, active, gates, Hints(by_name), nominator, clock, lock)
        self._began = self.fired[0]
        forked_owners.watch(self, lock)
        return self

    def __repr__(self) -> str:
        return f"<SchedulingQueue: {len(self)} waiting>"

    def pending_pods(self) -> PendingPods:
        """Return all waiting pods by place."""
        with self:
            return PendingPods(*self._pending())

    # ---- events --------------------------------------------------------------------------------------------

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node. An unschedulable one moves if a hint answers Queue.

        Parameters
        ----------
        old, new : Pod
            The states before and after.
        """
        with self:
            uid = new.metadata.uid
            if uid in self.flights:
                for event in self.pod_events.of_update(old, new):
                    self.flights.observe(event, Notice(old, new))
            elif (info := self.get(uid)) is None:
                self.add([new], label=self.pod_events.updated.label)
            else:
                self._replace(info, new)
                self.nominator.update_nominated_pod(old, new)
                if info.place is Place.UNSCHEDULABLE:
                    self._reconsider(info, old, new)

    def _reconsider(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        """Move an unschedulable pod, or its group, if a hint answers Queue for its update."""
        entry, ask = self.entry_of(info), self.hints.strategy
        for event in self.pod_events.of_update(old, new):
            strategy = max((ask(member, event, old, new) for member in entry.ordered()), key=STRENGTH)
            if strategy is not Strategy.SKIP:
                self.requeue([(strategy, entry)], event.label)
                if entry.place is not Place.UNSCHEDULABLE:
                    return

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods, with the others of their groups, to the active queue, regardless of hints and backoff.

        A gated pod stays if PreEnqueue still rejects it. For a pod in flight the event is recorded. Unknown
        pods are ignored.
        """
        with self:
            for pod in pods:
                if (info := self.get(pod.metadata.uid)) is not None:
                    if self.entry_of(info).place not in (Place.ACTIVE, None):
                        self.requeue([(Strategy.IMMEDIATELY, info)], FORCE_ACTIVATE.label)
                elif pod.metadata.uid in self.flights:
                    self.flights.observe(FORCE_ACTIVATE, Notice(None, pod))

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
        with self:
            hints, left = self.hints, iter(changes)
            while (listeners := self.unschedulable.listening(event, hints.meaning)) or len(self.flights):
                change = next(left, None) if hints.is_registered(event) else None
                if change is None:
                    break
                moves = list[PossibleMove]()
                if listeners:  # else no object is made
                    moves = possible_moves(self, hints, listeners, event, change.old, change.new)
                if check is not None:
                    moves = [move for move in moves if check(move[1].pod)]
                self._sweep(moves, event, change)

    def may_react(self, event: ClusterEvent) -> bool:
        """Whether an event can have an effect: a pod is in flight, or a hint may move another one."""
        with self:
            return len(self.flights) > 0 or bool(self.unschedulable.listening(event, self.hints.meaning))

    def _sweep(self, moves: Iterable[PossibleMove], event: ClusterEvent, change: Notice[Any]) -> None:
        """Move the pods for which a hint returns Queue, and record the event for the pods in flight."""
        ask = self.hints.strategy
        decided = [
            (strategy or ask(info, event, change.old, change.new), info) for _, info, strategy in moves
        ]
        if self.groups:
            strongest = dict[QueuedPodInfo, Strategy]()  # of a group that of one of its pods
            for strategy, info in decided:
                entry = self.entry_of(info)
                strongest[entry] = max(strongest.get(entry, strategy), strategy, key=STRENGTH)
            decided = [(strategy, entry) for entry, strategy in strongest.items()]
        self.requeue([move for move in decided if move[0] is not Strategy.SKIP], event.label)
        self.flights.observe(event, change)

    # ---- timers --------------------------------------------------------------------------------------------

    def _next_backoff_end(self) -> int:
        """Return when the backoff timer will next move a pod, in microseconds; `NEVER` if no pod backs
        off."""
        end = self.backoff.next_end()
        return NEVER if end is None else (max(end, self.fired[0]) // MICROSECONDS + 1) * MICROSECONDS

    def _next_timeout(self, gated: bool) -> int:
        """Return when the unschedulable timer will next move a pod, in microseconds; `NEVER` where no pod
        waits.

        Gated pods may count. Up to v1.36 the timer does not move them, but their timeout is an event for pods
        in flight; since v1.37 they are asked again.
        """
        oldest = self._oldest(gated)
        if oldest is None:
            return NEVER
        after = max(microseconds(oldest) + MAX_UNSCHEDULABLE, self.fired[1]) - self._began
        return self._began + (after // FLUSH_PERIOD + 1) * FLUSH_PERIOD

    def next_event(self) -> float | None:
        """Return when a timer will next move a pod, in seconds; None if there is no such time."""
        with self:
            at = min(self._next_backoff_end(), self._next_timeout(gated=False))
            return None if at == NEVER else at / MICROSECONDS

    def run_periodic(self, now: float) -> None:
        """Run the two timers up to a time, in order of time (kube-scheduler v1.36,
        backend/queue/scheduling_queue.go Run).

        Parameters
        ----------
        now : float
            Seconds.
        """
        last = microseconds(now)
        with self:
            clock = self.now
            # Even where gated pods stay, their timeout is an event for pods in flight.
            gated = self.hints.gated_pods_time_out or len(self.flights) > 0
            try:
                while (at := min(end := self._next_backoff_end(), self._next_timeout(gated))) <= last:
                    self.now = partial(float, at / MICROSECONDS)
                    if at == end:
                        self.fired = at, self.fired[1]
                        self.flush_backoff_completed()
                    else:
                        self.fired = self.fired[0], at
                        self.flush_unschedulable_left_over()
                self.fired = max(self.fired[0], last), max(self.fired[1], last)
            finally:
                self.now = clock

    def flush_unschedulable_left_over(self) -> None:
        """Move the pods that have been unschedulable for more than 5 minutes; gated pods stay, or PreEnqueue
        is asked again (`Release.gated_pods_time_out`)."""
        with self:
            now = self.now()
            entries = self._older_than(microseconds(now) - MAX_UNSCHEDULABLE)
            if not entries:
                return
            self.changes += 1
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
