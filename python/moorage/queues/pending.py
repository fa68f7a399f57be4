"""The workloads of a queue that wait (Kueue v0.17, pkg/cache/queue/cluster_queue.go)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from heapq import heapify, heappop, heappush

from moorage.kube.model.kueue import BEST_EFFORT, STRICT

from .settings import Settings
from .workloads import REQUEUED, QueuedWorkload

MISMATCH, PENDING_PREEMPTION, FAILED, GENERIC = "NamespaceMismatch", "PendingPreemption", "FailedAfter", ""


_Place = tuple[int, int, str, str]


class PendingQueue:
    """The workloads that wait in a cluster queue: those that are tried in turn, and those that wait for
    something to happen.

    Parameters
    ----------
    busy : set of str
        Has the names of all queues with workloads that are tried; it follows.

    Attributes
    ----------
    inadmissible : dict of str to QueuedWorkload
        The latter, by key.
    """

    def __init__(self, name: str, strategy: str, settings: Settings, busy: set[str]) -> None:
        self.strategy = strategy
        self._name, self._busy = name, busy
        self._settings = settings
        self._heap: list[_Place] = []
        self._active: dict[str, tuple[_Place, QueuedWorkload]] = {}
        self.inadmissible: dict[str, QueuedWorkload] = {}
        self._revisions: dict[str, int] = {}
        self._sticky = ""

    def copy(self, workloads: Mapping[str, QueuedWorkload], busy: set[str]) -> PendingQueue:
        """Return the same queue of copies of its workloads."""
        new = copy(self)
        new._busy = busy
        new._heap, new._revisions = self._heap[:], self._revisions.copy()
        new._active = {key: (place, workloads[key]) for key, (place, _) in self._active.items()}
        new.inadmissible = {key: workloads[key] for key in self.inadmissible}
        return new

    def in_order(self) -> list[QueuedWorkload]:
        """Return those that are tried, in their order."""
        active = sorted(self._active.values(), key=lambda each: (each[0][3] != self._sticky, each[0]))
        return [workload for _, workload in active]

    def pop(self) -> QueuedWorkload | None:
        """Take the first one out; None if there is none."""
        if self._sticky in self._active:
            return self._remove(self._sticky)
        while self._heap:
            place = heappop(self._heap)
            if self._active.get(place[3], ("",))[0] == place:
                return self._remove(place[3])
        return None

    def _remove(self, key: str) -> QueuedWorkload:
        _, workload = self._active.pop(key)
        if len(self._heap) > 2 * len(self._active) + 16:
            self._heap = [place for place, _ in self._active.values()]
            heapify(self._heap)
        if not self._active:
            self._busy.discard(self._name)
        return workload

    def _push(self, workload: QueuedWorkload) -> None:
        place = (-workload.priority, workload.queue_time(self._settings), workload.uid, workload.key)
        if self._active.get(workload.key, ("",))[0] != place:
            heappush(self._heap, place)
        self._active[workload.key] = place, workload
        self._busy.add(self._name)

    def _park(self, workload: QueuedWorkload) -> None:
        self.inadmissible[workload.key] = workload
        self._revisions[workload.key] = workload.revision

    def _unpark(self, key: str) -> None:
        self.inadmissible.pop(key, None)
        self._revisions.pop(key, None)

    def update(self, workload: QueuedWorkload, now: int) -> None:
        """Enter a workload that is new or has changed; its search for flavors starts anew."""
        key = workload.key
        workload.last = None
        if key in self.inadmissible:
            if self._revisions[key] == workload.revision:
                return
            self._unpark(key)
        if key not in self._active and not _may_be_tried(workload, now):
            self._park(workload)
        else:
            self._push(workload)

    def delete(self, key: str) -> None:
        """Take a workload out, wherever it is."""
        self._unpark(key)
        if key in self._active:
            self._remove(key)
        if self._sticky == key:
            self._sticky = ""

    def give_back(self, workload: QueuedWorkload, reason: str, now: int) -> None:
        """Enter a workload that was tried and not admitted."""
        if reason == PENDING_PREEMPTION and self.strategy == BEST_EFFORT:
            self._sticky = workload.key
        is_strict = self.strategy == STRICT
        at_once = reason != MISMATCH if is_strict else reason in (FAILED, PENDING_PREEMPTION)
        if (at_once or workload.last is not None) and _may_be_tried(workload, now):
            self._push(workload)
        else:
            self._park(workload)

    def retry(self, matches: dict[str, bool], now: int) -> None:
        """Let those that wait be tried again, but for those of namespaces that do not match, and those whose
        time has not come."""
        for key, workload in list(self.inadmissible.items()):
            if matches[workload.obj.namespace] and _may_be_tried(workload, now):
                self._unpark(key)
                self._push(workload)


def _may_be_tried(workload: QueuedWorkload, now: int) -> bool:
    requeued = workload.conditions.get(REQUEUED)
    is_held = requeued is not None and not requeued.is_true
    return not is_held and (workload.requeue_at is None or now >= workload.requeue_at)
