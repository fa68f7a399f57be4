"""The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.

kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order of their entry, where
upstream's heap leaves it open.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Any, Protocol

from moorage.framework.interface import QueuedPod

from .keyed_heap import KeyedHeap
from .queued_pod_info import QueuedPodInfo

Less = Callable[[QueuedPod, QueuedPod], bool]


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """`less` of PrioritySort: higher priority first, then the one that came earlier."""
    ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
    return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)


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

    Attributes
    ----------
    last : tuple of float and int
        Timestamp and number of the last entry in order.
    """

    __slots__ = ("in_order", "last", "late")

    def __init__(self) -> None:
        self.in_order: OrderedDict[str, QueuedPodInfo] = OrderedDict()
        self.late = KeyedHeap()
        self.last = (float("-inf"), 0)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return merge(self.in_order.values(), self.late, key=_came)

    def remove(self, info: QueuedPodInfo) -> None:
        uid = info.pod.metadata.uid
        if self.in_order.pop(uid, None) is None:
            self.late.remove(uid)

    def pop(self) -> QueuedPodInfo:
        if self.late:
            came, _ = self.late.peek()
            if not self.in_order or came < _came(next(iter(self.in_order.values()))):
                return self.late.pop()
        _, info = self.in_order.popitem(last=False)
        return info


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
        pod = info.pod
        priority = pod.spec.priority or 0
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = Lane()
            insort(self._priorities, priority)
        came = info.timestamp, info.order
        if came > lane.last:
            lane.last = came
            lane.in_order[pod.metadata.uid] = info
        else:
            lane.late.add(came, info)
        self.size += 1

    def remove(self, info: QueuedPodInfo) -> None:
        priority = info.pod.spec.priority or 0
        lane = self._lanes[priority]
        lane.remove(info)
        self.size -= 1
        if not (lane.in_order or lane.late):
            del self._lanes[priority]
            del self._priorities[bisect_left(self._priorities, priority)]

    def pop(self) -> QueuedPodInfo:
        priority = self._priorities[-1]
        lane = self._lanes[priority]
        info = lane.pop()
        self.size -= 1
        if not (lane.in_order or lane.late):
            del self._lanes[priority]
            self._priorities.pop()
        return info
