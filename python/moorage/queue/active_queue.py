"""The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.

kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order in which they entered;
upstream's heap leaves their order open. In the order of PrioritySort they are in
`moorage._core.queue.queued_pods.PriorityLanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moorage._core.queue.queued_pods import KeyedHeap, QueuedPodInfo
from moorage.framework import QueuedPod

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


class Rank:
    """The rank of a pod: by `less`, then by the number of its entry into the queue.

    Parameters
    ----------
    less : callable
        See `SortedHeap`.
    """

    __slots__ = ("info", "less")

    def __init__(self, less: Less, info: QueuedPodInfo) -> None:
        self.less = less
        self.info = info

    def __lt__(self, other: Rank) -> bool:
        if self.less(self.info, other.info):
            return True
        return not self.less(other.info, self.info) and self.info.order < other.info.order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rank) and self.info is other.info

    __hash__ = None  # type: ignore[assignment]


class SortedHeap:
    """A queue in the order of a QueueSort plugin.

    Parameters
    ----------
    less : callable
        The plugin's Less: whether the first of two pods comes before the second.

    Attributes
    ----------
    size : int
        The number of pods.
    """

    def __init__(self, less: Less) -> None:
        self._less = less
        self._heap = KeyedHeap()
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate in the order in which the pods would be popped."""
        return iter(self._heap)

    @property
    def next(self) -> QueuedPodInfo | None:
        """The next pod; None without pods."""
        return self._heap.peek()[1] if self.size else None

    def rank(self, info: QueuedPodInfo) -> tuple[Any, ...]:
        """Return a unique key of the pod's position in the order; lower keys first."""
        return (Rank(self._less, info),)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not in the queue."""
        self._heap.add(self.rank(info), info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod that is in the queue."""
        self._heap.remove(info.uid)
        self.size -= 1

    def pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Remove and return the first pods, at most `limit`.

        Parameters
        ----------
        limit : int
            Largest number of pods.
        """
        n = min(limit, self.size)
        self.size -= n
        return self._heap.pop_many(n)

    def pop_alike(self, limit: int) -> list[QueuedPodInfo]:
        """Remove and return the first entries, all of pods or all of groups.

        Parameters
        ----------
        limit : int
            Largest number of pods; the last group may exceed it.
        """
        infos: list[QueuedPodInfo] = []
        count = 0
        while self.size and count < limit:
            info = self._heap.peek()[1]
            if infos and (info.unit is None) != (infos[0].unit is None):
                break
            infos += self.pop_many(1)
            count += info.size
        return infos
