"""The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.

kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order in which they entered;
upstream's heap leaves their order open.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, merge
from typing import Any

from moorage.framework import QueuedPod

from .queued_pod_info import QueuedPodInfo

Less = Callable[[QueuedPod, QueuedPod], bool]
TimedPod = tuple[float, int, QueuedPodInfo]
"""Timestamp, number of the entry into the queue (which is unique), and the pod."""


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """Compare two pods by PrioritySort: higher priority first, then the earlier timestamp.

    Parameters
    ----------
    self : object
        The plugin; unused.
    a, b : QueuedPod

    Returns
    -------
    bool
        Whether `a` comes before `b`.
    """
    ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
    return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)


Entry = tuple[Any, str, QueuedPodInfo]
SPARE = 32


class KeyedHeap:
    """A heap of pods by UID, the lowest rank first. Ranks are unique.

    A removed pod stays in the heap until it reaches the top, or until removed pods outnumber the others.

    Attributes
    ----------
    entries : dict of str to tuple
        Rank, UID and pod of each pod in the heap, by UID.
    """

    __slots__ = ("_heap", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate in the order in which the pods would be popped."""
        return (info for _, _, info in sorted(self.entries.values()))

    def add(self, rank: Any, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not in the heap.

        Parameters
        ----------
        rank : comparable
            Unique.
        info : QueuedPodInfo
        """
        uid = info.pod.metadata.uid
        entry = self.entries[uid] = (rank, uid, info)
        heappush(self._heap, entry)

    def remove(self, uid: str) -> None:
        """Remove the pod of a UID.

        Parameters
        ----------
        uid : str

        Raises
        ------
        KeyError
            The heap has no such pod.
        """
        del self.entries[uid]
        if len(self._heap) > 2 * len(self.entries) + SPARE:
            self._heap = list(self.entries.values())
            heapify(self._heap)

    def peek(self) -> tuple[Any, QueuedPodInfo]:
        """Return rank and pod of the first entry; IndexError if the heap is empty."""
        while True:
            rank, uid, info = entry = self._heap[0]
            if self.entries.get(uid) is entry:
                return rank, info
            heappop(self._heap)

    def pop(self) -> QueuedPodInfo:
        """Remove and return the first pod; IndexError if the heap is empty."""
        while True:
            _, uid, info = entry = heappop(self._heap)
            if self.entries.get(uid) is entry:
                del self.entries[uid]
                return info


class Rank:
    """The rank of a pod: by `less`, then by the number of its entry into the queue.

    Parameters
    ----------
    less : callable
        See `SortedHeap`.
    info : QueuedPodInfo
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
    def priority(self) -> int | None:
        """Return None: the order of a QueueSort plugin need not depend on priorities."""
        return None

    def rank(self, info: QueuedPodInfo) -> Any:
        """Return a unique key of the pod's position in the order; lower keys first.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        comparable
        """
        return Rank(self._less, info)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        self._heap.add(self.rank(info), info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod that is in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        self._heap.remove(info.pod.metadata.uid)
        self.size -= 1

    def pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Remove and return the first pods, at most `limit`.

        Parameters
        ----------
        limit : int
            Largest number of pods.

        Returns
        -------
        list of QueuedPodInfo
        """
        n = min(limit, self.size)
        self.size -= n
        return [self._heap.pop() for _ in range(n)]


class Lane:
    """The pods of one priority: a list for timestamps that arrive in order, a heap for the others.

    A removed pod stays in the list until it reaches the front, or until removed pods outnumber the others.

    Attributes
    ----------
    size : int
        The number of pods.
    out_of_order : KeyedHeap
        The pods whose timestamp was not the latest when they entered.
    """

    __slots__ = ("_in_order", "_last", "_removed", "out_of_order", "size")

    def __init__(self) -> None:
        self._in_order: deque[TimedPod] = deque()
        self._removed: set[int] = set()  # entry numbers of removed pods that `_in_order` still contains
        self._last: tuple[Any, ...] = (float("-inf"),)
        self.out_of_order = KeyedHeap()
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate in the order in which the pods would be popped."""
        in_order = (entry[2] for entry in self._in_order if entry[1] not in self._removed)
        return merge(in_order, self.out_of_order, key=_position)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not in the lane.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        entry = info.timestamp, info.order, info
        if entry > self._last:
            self._last = entry
            self._in_order.append(entry)
        else:
            self.out_of_order.add(entry, info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod that is in the lane.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        self.size -= 1
        uid = info.pod.metadata.uid
        if uid in self.out_of_order.entries:
            self.out_of_order.remove(uid)
            return
        self._removed.add(info.order)
        if 2 * len(self._removed) > len(self._in_order) + SPARE:
            self._in_order = deque(entry for entry in self._in_order if entry[1] not in self._removed)
            self._removed.clear()

    def pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Remove and return the first pods, at most `limit`.

        Parameters
        ----------
        limit : int
            Largest number of pods.

        Returns
        -------
        list of QueuedPodInfo
        """
        n = min(limit, self.size)
        self.size -= n
        if self._removed or self.out_of_order.entries:
            return [self._pop() for _ in range(n)]
        popleft = self._in_order.popleft
        return [popleft()[2] for _ in range(n)]

    def _pop(self) -> QueuedPodInfo:
        """Remove and return the first pod."""
        in_order, removed = self._in_order, self._removed
        while removed and in_order[0][1] in removed:
            removed.remove(in_order.popleft()[1])
        if self.out_of_order.entries and (not in_order or self.out_of_order.peek()[0] < in_order[0]):
            return self.out_of_order.pop()
        return in_order.popleft()[2]


def _position(info: QueuedPodInfo) -> tuple[float, int]:
    """Return the key by which the pods of one priority are ordered: timestamp, then number of the entry."""
    return info.timestamp, info.order


class PriorityLanes:
    """A queue in the order of PrioritySort.

    Timestamps mostly arrive in order, so most pods enter at the end of the lane of their priority and leave
    at its beginning.

    Attributes
    ----------
    size : int
        The number of pods.
    """

    def __init__(self) -> None:
        self._lanes: dict[int, Lane] = {}
        self._priorities: list[int] = []  # ascending
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate in the order in which the pods would be popped."""
        return (info for priority in reversed(self._priorities) for info in self._lanes[priority])

    @property
    def priority(self) -> int | None:
        """Return the priority of the next pod; None without pods."""
        return self._priorities[-1] if self._priorities else None

    def rank(self, info: QueuedPodInfo) -> Any:
        """Return a unique key of the pod's position in the order; lower keys first.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        comparable
        """
        return -(info.pod.spec.priority or 0), info.timestamp, info.order

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        priority = info.pod.spec.priority or 0
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = Lane()
            insort(self._priorities, priority)
        lane.add(info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove a pod that is in the queue.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        priority = info.pod.spec.priority or 0
        lane = self._lanes[priority]
        lane.remove(info)
        self.size -= 1
        if not lane.size:
            del self._lanes[priority]
            del self._priorities[bisect_left(self._priorities, priority)]

    def pop_many(self, limit: int) -> list[QueuedPodInfo]:
        """Remove and return the first pods, at most `limit`: those of the highest priority.

        Parameters
        ----------
        limit : int
            Largest number of pods.

        Returns
        -------
        list of QueuedPodInfo
        """
        if not self._priorities:
            return []
        lane = self._lanes[self._priorities[-1]]
        infos = lane.pop_many(limit)
        self.size -= len(infos)
        if not lane.size:
            del self._lanes[self._priorities.pop()]
        return infos
