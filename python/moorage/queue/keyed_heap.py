"""A heap whose items can be removed from its middle."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from .queued_pod_info import QueuedPodInfo

_Entry = tuple[Any, str, QueuedPodInfo]
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
        self.entries: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []

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
