"""In which order a cycle decides about the heads of queues (Kueue v0.17, pkg/scheduler/scheduler.go,
fair_sharing_iterator.go)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .quota import Node, Share, Undo, undo
from .settings import Settings
from .snapshot import Queue
from .workloads import QueuedWorkload, Usage


class Tournament:
    """Orders the heads of queues: in each cohort those of its children compete by the share that each child
    would have with its head.

    Parameters
    ----------
    entries : mapping of Queue to (QueuedWorkload, Usage)
        The heads, with what they would use.
    """

    def __init__(self, entries: Mapping[Queue, tuple[QueuedWorkload, Usage]], settings: Settings) -> None:
        self._left = dict(sorted(entries.items(), key=lambda pair: pair[0].name))
        self._settings = settings
        self._shares: dict[tuple[Node, Queue], Share] = {}

    def __iter__(self) -> Iterator[Queue]:
        while self._left:
            queue = next(iter(self._left))
            if queue.parent is not None:
                root = queue.root()
                self._count(root)
                winner = self._winner(root)
                assert winner is not None
                queue = winner
            yield queue
            del self._left[queue]

    def _count(self, root: Node) -> None:
        """Compute the shares that the nodes of a tree would have with each head."""
        for queue in root.all_queues():
            assert isinstance(queue, Queue)
            if queue in self._left:
                changes: Undo = []
                queue.use(self._left[queue][1], changes)
                share = queue.share()
                for cohort in queue.cohort_path:
                    self._shares[cohort, queue] = share
                    share = cohort.share()
                undo(changes)

    def _winner(self, cohort: Node) -> Queue | None:
        candidates = [self._winner(child) for child in cohort.cohorts]
        candidates += [each for each in cohort.queues if each in self._left and isinstance(each, Queue)]
        present = [each for each in candidates if each is not None]
        return min(present, key=lambda each: self._order(each, cohort), default=None)

    def _order(self, queue: Queue, cohort: Node) -> tuple[bool, tuple[bool, float], int, int]:
        """What is smaller for who goes first."""
        workload, usage = self._left[queue]
        share = self._shares[cohort, queue]
        borrows = any(usage.quota.get(key, 0) > 0 for key in share.borrowed)
        first = borrows and self._settings.gate("FairSharingPrioritizeNonBorrowing")
        by_priority = self._settings.gate("PrioritySortingWithinCohort")
        priority = -workload.priority if by_priority else 0
        return first, share.order(), priority, workload.queue_time(self._settings)
