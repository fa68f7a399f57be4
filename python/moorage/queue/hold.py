"""A hold: pods of a batch that are treated as waiting while events are received."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from fastrlock.rlock import FastRLock

from moorage._core.services.in_flight import InFlight
from moorage._core.services.queued_pods import Place, QueuedPodInfo
from moorage._core.services.unschedulable_pods import Rejection
from moorage.framework import ClusterEvent
from moorage.objects import Pod, group_of

from .hints import Hints, Question
from .places import Places, Strategy


class Preemptor(NamedTuple):
    """A preemptor that returns to the queue, right before the deletions of its victims.

    Attributes
    ----------
    info : QueuedPodInfo
        In flight.
    latest : Pod or None
        Its latest state.
    rejectors : tuple of (frozenset of str, frozenset of str)
        The plugins that rejected it, and those among them that answered Pending.
    now : float or None
        The time in seconds; None for the clock of the queue.
    victims : sequence of Pod
    """

    info: QueuedPodInfo
    latest: Pod | None
    rejectors: tuple[frozenset[str], frozenset[str]]
    now: float | None
    victims: Sequence[Pod]


class Hold:
    """Popped pods that are to be tried next, and for which no events are recorded for a while, as if they had
    been put back before, and were popped again after it.

    Parameters
    ----------
    lock : FastRLock
        Of the queue.
    in_flight : InFlight
    places : Places
    hints : Hints
    wake : callable
        Wakes the threads that wait for a pod.
    """

    def __init__(
        self,
        lock: FastRLock,
        in_flight: InFlight,
        places: Places,
        hints: Hints,
        wake: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._in_flight = in_flight
        self._places = places
        self._hints = hints
        self._wake = wake

    def begin(self, infos: Sequence[QueuedPodInfo], at: int) -> bool:
        """Hold pods.

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            Pods of one `SchedulingQueue.pop_batch`.
        at : int
            The index of the first pod that is still to be tried.

        Returns
        -------
        bool
            False, and nothing is done, where other pods are in flight, events are recorded for these, or they
            were not in the active queue.
        """
        with self._lock:
            in_flight = self._in_flight
            if len(in_flight) == len(infos) - at and not in_flight.has_events:
                in_flight.is_held = in_flight.place(infos[-1]) is Place.ACTIVE
            return in_flight.is_held

    def end(self, infos: Sequence[QueuedPodInfo]) -> bool:
        """End the hold.

        Parameters
        ----------
        infos : sequence of QueuedPodInfo
            The argument of `begin`.

        Returns
        -------
        bool
            Whether the held pods would be popped next, if they were put back; False after an interruption.
        """
        with self._lock:
            was_held, self._in_flight.is_held = self._in_flight.is_held, False
            active, following = self._places.active, self._places.active.next
            return was_held and (following is None or bool(active.rank(infos[-1]) < active.rank(following)))

    def back_off(self, preemptors: Sequence[Preemptor], deleted: ClusterEvent, changed: ClusterEvent) -> int:
        """Return preemptors to the queue while pods are held, as far as the deletion of a victim moves each
        of them to the backoff queue at once.

        Parameters
        ----------
        preemptors : sequence of Preemptor
            None of them is among the victims.
        deleted : ClusterEvent
            The deletion of a pod.
        changed : ClusterEvent
            The change of a pod before its deletion. No preemptor returns to which it may mean something.

        Returns
        -------
        int
            The number of preemptors that have returned; the next one needs a closer look.
        """
        with self._lock:
            in_flight, has_unschedulable = self._in_flight, bool(self._places.unschedulable.by_rejection)
            if not in_flight.is_held or in_flight.has_events or has_unschedulable:
                return 0
            done, known = 0, cast("tuple[str, object] | None", None)
            questions: tuple[Question, ...] | None = None
            for info, latest, rejectors, now, victims in preemptors:
                if latest is None or not self._is_as_popped(info, latest):
                    break
                if known != (latest.spec.scheduler_name, rejectors):
                    known = latest.spec.scheduler_name, rejectors
                    questions = self._questions(Rejection(known[0], *rejectors, ""), deleted, changed)
                info.pod = latest
                if not (questions and self._moves(info, questions, victims)):
                    break
                if not self._places.back_off(in_flight, info, rejectors, now, deleted.label):
                    break
                done += 1
            if done:
                self._wake()
            return done

    def _is_as_popped(self, info: QueuedPodInfo, latest: Pod) -> bool:
        """Whether a pod is still in flight, without a group, and no event was recorded for it."""
        uid = info.uid
        if not self._in_flight.has(info) or uid != latest.metadata.uid or self._in_flight.since_pop(uid):
            return False
        return not (latest.spec.node_name or (self._places.units.is_on and group_of(latest)))

    def _questions(
        self, rejection: Rejection, deleted: ClusterEvent, changed: ClusterEvent
    ) -> tuple[Question, ...] | None:
        """Return the hints about a deletion that answer for whole classes of pods; None where the change
        before it may move a pod, or hints of another kind are asked."""
        if self._hints.meaning(rejection, changed).may_move:
            return None
        means = self._hints.meaning(rejection, deleted)
        return means.questions if means.may_move and means.of_class and not means.is_about_group else None

    def _moves(self, info: QueuedPodInfo, questions: tuple[Question, ...], victims: Sequence[Pod]) -> bool:
        """Whether the deletion of a victim moves a pod to the backoff queue."""
        ask = self._hints.ask
        for victim in victims:
            if (strategy := ask(questions, info, victim, None)) is not Strategy.SKIP:
                return strategy is Strategy.AFTER_BACKOFF
        return False
