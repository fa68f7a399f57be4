"""The backoff queue: pods that failed and must not be tried again at once.

kube-scheduler v1.36, backend/queue/backoff_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .active_queue import KeyedHeap
from .queued_pod_info import MICROSECONDS, Place, QueuedPodInfo, microseconds


class BackoffQueue:
    """Pods by the end of their backoff; those that failed by an error apart, which are never popped early.

    Parameters
    ----------
    initial, maximum : float
        Seconds; a maximum of 0 turns backoff off.
    in_windows : bool
        Ends are cut to whole seconds, within which pods are ordered as in the active queue; so it is where
        pods may be popped before.
    rank : callable
        A pod's rank in the active queue. It is what decides between pods of one end without windows as well,
        where upstream's heap leaves it open.
    """

    def __init__(
        self, initial: float, maximum: float, in_windows: bool, rank: Callable[[QueuedPodInfo], Any]
    ) -> None:
        self._initial = microseconds(initial)
        self._maximum = microseconds(maximum)
        self._window = MICROSECONDS if in_windows else 1
        self._rank = rank
        self.heaps = {Place.BACKOFF: KeyedHeap(), Place.ERROR_BACKOFF: KeyedHeap()}
        self.rejected, self.failed = self.heaps.values()

    def until(self, info: QueuedPodInfo) -> int:
        """When a pod's backoff ends, in microseconds; 0 where it has none. Remembered in the pod."""
        count = info.consecutive_errors_count or info.unschedulable_count
        if count == 0 or self._maximum == 0:
            return 0
        if not info.until:
            shift = count - 1
            longest = self._initial > self._maximum >> shift
            end = microseconds(info.timestamp) + (self._maximum if longest else self._initial << shift)
            info.until = end - end % self._window
        return info.until

    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool:
        """Whether a pod may not be tried yet; in the window in which its backoff ends it may not either."""
        until = self.until(info)
        return until != 0 and until >= self._in_window(now)

    def _in_window(self, now: float) -> int:
        at = microseconds(now)
        return at - at % self._window

    def add(self, info: QueuedPodInfo) -> None:
        """To the heap of the pod's place."""
        assert info.place is not None
        self.heaps[info.place].add((self.until(info), self._rank(info)), info)

    def remove(self, info: QueuedPodInfo) -> None:
        """From the heap of the pod's place."""
        assert info.place is not None
        self.heaps[info.place].remove(info.pod.metadata.uid)

    def pop_completed(self, now: float) -> list[QueuedPodInfo]:
        """Remove and return the pods whose backoff is over: rejected ones first, each in order."""
        end = self._in_window(now)
        found: list[QueuedPodInfo] = []
        for heap in self.heaps.values():
            while heap and heap.peek()[0][0] < end:
                found.append(heap.pop())
        return found

    def next_end(self) -> int | None:
        """When the first backoff ends, in microseconds."""
        return min((heap.peek()[0][0] for heap in self.heaps.values() if heap), default=None)
