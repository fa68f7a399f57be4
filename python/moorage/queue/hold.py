"""A hold: pods of a batch that are treated as waiting while events are received."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrlock.rlock import FastRLock

from moorage._core.services.in_flight import InFlight
from moorage._core.services.queued_pods import Place, QueuedPodInfo
from moorage.framework import ClusterEvent

from .places import Places


class Hold:
    """Popped pods that are to be tried next, and for which no events are recorded for a while, as if they had
    been put back before, and were popped again after it.

    Parameters
    ----------
    lock : FastRLock
        Of the queue.
    in_flight : InFlight
    places : Places

    Attributes
    ----------
    is_on : bool
    """

    def __init__(self, lock: FastRLock, in_flight: InFlight, places: Places) -> None:
        self._lock = lock
        self._in_flight = in_flight
        self._places = places
        self.is_on = False

    @property
    def leaves_listeners(self) -> bool:
        """Whether there are pods in flight for which events are recorded."""
        return not self.is_on and bool(self._in_flight)

    def observe(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event for the pods in flight, if there are any that are not held.

        Parameters
        ----------
        event : ClusterEvent
        old, new : object or None
            The object of the event before and after it.
        """
        if self.leaves_listeners:
            self._in_flight.observe(event, old, new)

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
            if len(in_flight) == len(infos) - at and not in_flight.events:
                self.is_on = in_flight.place(infos[-1].uid) is Place.ACTIVE
            return self.is_on

    def interrupt(self, *uids: str) -> list[QueuedPodInfo]:
        """Return the pods that are held, if one of them is about to change; they are held no longer. The
        caller has the lock.

        Parameters
        ----------
        *uids : str
            Of the pods that change.

        Returns
        -------
        list of QueuedPodInfo
        """
        if not self.is_on or not any(uid in self._in_flight for uid in uids):
            return []
        self.is_on = False
        return list(self._in_flight)

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
            was_on, self.is_on, active = self.is_on, False, self._places.active
            following = active.next
            return was_on and (following is None or bool(active.rank(infos[-1]) < active.rank(following)))
