"""The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.

kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order of their entry, where
upstream's heap leaves it open.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, merge
from typing import Any, Protocol

from moorage.framework.plugin.interface import QueuedPod

from .queued_pod_info import QueuedPodInfo

Less = Callable[[QueuedPod, QueuedPod], bool]
Came = tuple[float, int, QueuedPodInfo]
"""Timestamp, number of the entry, and the pod; no two numbers are equal."""


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """`less` of PrioritySort: higher priority first, then the one that came earlier."""
    ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
    return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)


Entry = tuple[Any, str, QueuedPodInfo]
SPARE = 32


class KeyedHeap:
    """Pods by UID, the one of the lowest rank first; no two ranks may be equal.

    What was removed stays in the heap until it comes up, or until it outnumbers the rest.

    Attributes
    ----------
    entries : dict
        What is there, by UID.
    """

    __slots__ = ("_heap", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """In the order in which they would be popped."""
        return (info for _, _, info in sorted(self.entries.values()))

    def add(self, rank: Any, info: QueuedPodInfo) -> None:
        """Add a pod whose UID is not there."""
        uid = info.pod.metadata.uid
        entry = self.entries[uid] = (rank, uid, info)
        heappush(self._heap, entry)

    def remove(self, uid: str) -> None:
        """Remove a pod; KeyError where it is not there."""
        del self.entries[uid]
        if len(self._heap) > 2 * len(self.entries) + SPARE:
            self._heap = list(self.entries.values())
            heapify(self._heap)

    def peek(self) -> tuple[Any, QueuedPodInfo]:
        """Rank and pod of the first; IndexError where there is none."""
        while True:
            rank, uid, info = entry = self._heap[0]
            if self.entries.get(uid) is entry:
                return rank, info
            heappop(self._heap)

    def pop(self) -> QueuedPodInfo:
        """Remove and return the first; IndexError where there is none."""
        while True:
            _, uid, info = entry = heappop(self._heap)
            if self.entries.get(uid) is entry:
                del self.entries[uid]
                return info


class ActiveQueue(Protocol):
    """Pods in their order; `size` is their number."""

    size: int

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """In the order in which they would be popped."""

    def rank(self, info: QueuedPodInfo) -> Any:
        """What stands for a pod's place in the order: lower ranks first, no two equal."""

    def add(self, info: QueuedPodInfo) -> None: ...

    def remove(self, info: QueuedPodInfo) -> None: ...

    def pop(self) -> QueuedPodInfo:
        """The first; there must be one."""


def active_queue(less: Less) -> ActiveQueue:
    """A queue in the order of a QueueSort plugin's `less`."""
    return PriorityLanes() if getattr(less, "__func__", None) is by_priority else SortedHeap(less)


class Sorted:
    """A pod as `less` ranks it, then by its entry."""

    __slots__ = ("info", "less")

    def __init__(self, less: Less, info: QueuedPodInfo) -> None:
        self.less = less
        self.info = info

    def __lt__(self, other: Sorted) -> bool:
        if self.less(self.info, other.info):
            return True
        return not self.less(other.info, self.info) and self.info.order < other.info.order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sorted) and self.info is other.info

    __hash__ = None  # type: ignore[assignment]


class SortedHeap:
    """Any order."""

    def __init__(self, less: Less) -> None:
        self._less = less
        self._heap = KeyedHeap()
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._heap)

    def rank(self, info: QueuedPodInfo) -> Any:
        return Sorted(self._less, info)

    def add(self, info: QueuedPodInfo) -> None:
        self._heap.add(self.rank(info), info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        self._heap.remove(info.pod.metadata.uid)
        self.size -= 1

    def pop(self) -> QueuedPodInfo:
        self.size -= 1
        return self._heap.pop()


class Lane:
    """The pods of one priority: those that came in order of time, and a heap for those that did not.

    What was removed stays in order until it comes up, or until it outnumbers the rest.

    Attributes
    ----------
    size : int
        Its pods.
    """

    __slots__ = ("_gone", "_in_order", "_last", "late", "size")

    def __init__(self) -> None:
        self._in_order: deque[Came] = deque()
        self._gone: set[int] = set()  # numbers of those that were removed
        self._last: tuple[Any, ...] = (float("-inf"),)
        self.late = KeyedHeap()
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        in_order = (came[2] for came in self._in_order if came[1] not in self._gone)
        return merge(in_order, self.late, key=_came)

    def add(self, info: QueuedPodInfo) -> None:
        came = info.timestamp, info.order, info
        if came > self._last:
            self._last = came
            self._in_order.append(came)
        else:
            self.late.add(came, info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        self.size -= 1
        uid = info.pod.metadata.uid
        if uid in self.late.entries:
            self.late.remove(uid)
            return
        self._gone.add(info.order)
        if 2 * len(self._gone) > len(self._in_order) + SPARE:
            self._in_order = deque(came for came in self._in_order if came[1] not in self._gone)
            self._gone.clear()

    def pop(self) -> QueuedPodInfo:
        self.size -= 1
        in_order, gone = self._in_order, self._gone
        while gone and in_order[0][1] in gone:
            gone.remove(in_order.popleft()[1])
        if self.late.entries and (not in_order or self.late.peek()[0] < in_order[0]):
            return self.late.pop()
        return in_order.popleft()[2]


def _came(info: QueuedPodInfo) -> tuple[float, int]:
    return info.timestamp, info.order


class PriorityLanes:
    """The order of PrioritySort. Times mostly come in order, so most pods enter at the end of the lane of
    their priority, and leave at its beginning."""

    def __init__(self) -> None:
        self._lanes: dict[int, Lane] = {}
        self._priorities: list[int] = []  # ascending
        self.size = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for priority in reversed(self._priorities) for info in self._lanes[priority])

    def rank(self, info: QueuedPodInfo) -> Any:
        return -(info.pod.spec.priority or 0), info.timestamp, info.order

    def add(self, info: QueuedPodInfo) -> None:
        priority = info.pod.spec.priority or 0
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = Lane()
            insort(self._priorities, priority)
        lane.add(info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        priority = info.pod.spec.priority or 0
        lane = self._lanes[priority]
        lane.remove(info)
        self.size -= 1
        if not lane.size:
            del self._lanes[priority]
            del self._priorities[bisect_left(self._priorities, priority)]

    def pop(self) -> QueuedPodInfo:
        priority = self._priorities[-1]
        lane = self._lanes[priority]
        info = lane.pop()
        self.size -= 1
        if not lane.size:
            del self._lanes[priority]
            self._priorities.pop()
        return info
