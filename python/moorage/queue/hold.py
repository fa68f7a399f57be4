"""A hold: pods of a batch that are treated as waiting while events are received."""

from __future__ import annotations

from collections.abc import Sequence

from fastrlock.rlock import FastRLock

from moorage._core.queue.queued_pods import Place, QueuedPodInfo

from .places import Places


class Hold:
    """Popped pods that are to be tried next, and for which no events are recorded for a while, as if they had
    been put back before, and were popped again after it.

    Parameters
    ----------
    lock : FastRLock
        Of the queue.
    places : Places
    """

    def __init__(self, lock: FastRLock, places: Places) -> None:
        self._lock = lock
        self._places, self._in_flight = places, places.in_flight

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
