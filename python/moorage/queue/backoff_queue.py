"""The backoff queue: pods whose last attempt failed, until their backoff ends.

kube-scheduler v1.36, backend/queue/backoff_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage._core.services.queued_pods import KeyedHeap, Place, QueuedPodInfo

from .microseconds import MICROSECONDS, microseconds


class BackoffQueue:
    """Pods by the end of their backoff.

    Pods that failed with an error have a heap of their own: they are never popped before their backoff ends.

    Parameters
    ----------
    initial, maximum : float
        The backoff after the first failure and the longest one, in seconds. It doubles with each failure. A
        maximum of 0 turns backoff off.
    in_windows : bool
        Round ends down to whole seconds, and order the pods of one second as the active queue does. This
        holds where pods may be popped before their backoff ends.
    rank : callable
        Returns a pod's rank in the active queue. It also orders pods with equal ends where `in_windows` is
        False; upstream's heap leaves that order open.

    Attributes
    ----------
    heaps : dict of Place to KeyedHeap
    rejected, failed : KeyedHeap
        The pods that were rejected, and those that failed with an error.
    """

    def __init__(
        self,
        initial: float,
        maximum: float,
        in_windows: bool,
        rank: Callable[[QueuedPodInfo], tuple[Any, ...]],
    ) -> None:
        self._initial = microseconds(initial)
        self._maximum = microseconds(maximum)
        self._window = MICROSECONDS if in_windows else 1
        self._rank = rank
        self.heaps = {Place.BACKOFF: KeyedHeap(), Place.ERROR_BACKOFF: KeyedHeap()}
        self.rejected, self.failed = self.heaps.values()

    @property
    def shortest(self) -> int:
        """The shortest backoff, in microseconds."""
        return min(self._initial, self._maximum)

    def until(self, info: QueuedPodInfo) -> int:
        """Return when a pod's backoff ends.

        The end is stored in the pod, so that it is computed once for each attempt.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        int
            Microseconds; 0 for a pod without backoff.
        """
        if info.until:
            return info.until
        count = info.consecutive_errors_count or info.unschedulable_count
        if count == 0 or self._maximum == 0:
            return 0
        shift = count - 1
        longest = self._initial > self._maximum >> shift
        end = microseconds(info.timestamp) + (self._maximum if longest else self._initial << shift)
        info.until = end - end % self._window
        return info.until

    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Whether the backoff of a pod has not ended. It ends after the window that the end falls in.

        Parameters
        ----------
        info : QueuedPodInfo
        now : float
            Seconds.
        """
        until = self.until(info)
        return until != 0 and until >= self._window_of(now)

    def _window_of(self, now: float) -> int:
        """Return a time in microseconds, rounded down to the ordering window."""
        at = microseconds(now)
        return at - at % self._window

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod to the heap of its `place`.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        assert info.place is not None
        self.heaps[info.place].add((self.until(info), *self._rank(info)), info)

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod from the heap of its `place`.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        assert info.place is not None
        self.heaps[info.place].remove(info.uid)

    def pop_completed(self, now: float) -> list[QueuedPodInfo]:
        """Remove and return the pods whose backoff has ended.

        Parameters
        ----------
        now : float
            Seconds.

        Returns
        -------
        list of QueuedPodInfo
            Rejected pods first, each kind in the order of the ends.
        """
        end = self._window_of(now)
        completed: list[QueuedPodInfo] = []
        for heap in self.heaps.values():
            while heap and heap.peek()[0][0] < end:
                completed.append(heap.pop())
        return completed

    def next_end(self) -> int | None:
        """Return when the first backoff ends, in microseconds; None if the queue is empty."""
        return min((heap.peek()[0][0] for heap in self.heaps.values() if heap), default=None)
