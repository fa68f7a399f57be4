"""Who is preempted by shares (Kueue v0.17, pkg/scheduler/preemption/fairsharing)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from .candidates import (
    BY_SHARE,
    IN_QUEUE,
    RECLAIMED,
    PreemptionTarget,
    Preemptor,
    RemovedWorkloads,
)
from .quota import NO_SHARE, Node, Share, Undo
from .settings import FINAL, Settings
from .snapshot import Queue, QueueSnapshot
from .workloads import QueuedWorkload


def preempted_by_share(
    snapshot: QueueSnapshot, settings: Settings, preemptor: Preemptor
) -> list[PreemptionTarget]:
    """Return whom a workload preempts by shares."""
    left = preemptor.by_queue(snapshot, settings)
    if not left:
        return []
    removal = RemovedWorkloads(snapshot)
    with Undo() as added, removal.changes:
        preemptor.queue.use(preemptor.usage, added)
        search = _ShareSearch(settings, preemptor, removal, left)
        fits = search.first(settings.strategies[0] == FINAL)
        if not fits and len(settings.strategies) > 1:
            fits = search.second()
        preemptor.queue.release(preemptor.usage, removal.changes)
        return removal.without_needless(preemptor, True) if fits else []


class _ShareSearch:
    """Takes candidates out of the queue with the largest share, again and again."""

    def __init__(
        self,
        settings: Settings,
        preemptor: Preemptor,
        removal: RemovedWorkloads,
        left: dict[Queue, deque[QueuedWorkload]],
    ) -> None:
        self._settings = settings
        self._preemptor = preemptor
        self._removal = removal
        self._left = left  # without the queues that have nothing more to give
        self._pruned: set[Node] = set()  # cohorts without such queues
        self._kept: dict[Queue, deque[QueuedWorkload]] = {}
        self._moved: set[Node] = {preemptor.queue, *preemptor.queue.path}  # their shares are not as at first

    def first(self, by_final_share: bool) -> bool:
        """Take candidates by the first rule; return whether the preemptor fits."""
        own = self._preemptor.queue
        is_within = self._settings.gate("FairSharingPreemptWithinNominal") and own.is_within_quota(
            self._preemptor.needed
        )
        for queue in self._queues():
            left = self._left[queue]
            if queue is own or is_within:
                if self._take(left.popleft(), IN_QUEUE if queue is own else RECLAIMED):
                    return True
                continue
            mine, theirs = self._shares(queue)
            while left:
                candidate = left.popleft()
                if by_final_share:
                    with Undo() as changes:
                        queue.release(candidate.usage(), changes)
                        passes = mine.order() <= self._shares(queue)[1].order()
                else:
                    passes = mine.order() < theirs.order()
                if passes:
                    if self._take(candidate, BY_SHARE):
                        return True
                    break
                self._kept.setdefault(queue, deque()).append(candidate)
        return False

    def second(self) -> bool:
        """Take one candidate of each queue at most, of those that the first rule has passed over."""
        self._left, self._pruned = self._kept, set()
        for queue in self._queues():
            mine, theirs = self._shares(queue)
            if mine.order() < theirs.order() and self._take(self._left[queue][0], BY_SHARE):
                return True
            del self._left[queue]
        return False

    def _take(self, candidate: QueuedWorkload, reason: str) -> bool:
        """Take a candidate out; return whether the preemptor fits then."""
        self._removal.take(candidate, reason)
        queue = self._removal.queue_of(candidate)
        self._moved.update((queue, *queue.path))
        preemptor = self._preemptor
        with Undo() as changes:
            preemptor.queue.release(preemptor.usage, changes)
            return preemptor.fits(borrows=True)

    def _queues(self) -> Iterator[Queue]:
        """Yield the queue that is next, as long as there is one."""
        own = self._preemptor.queue
        if own.parent is None:
            while self._left.get(own):
                yield own
            return
        root = own.root
        while root not in self._pruned:
            queue = self._next(root)
            if queue is not None:
                yield queue

    def _next(self, cohort: Node) -> Queue | None:
        """Return the queue below a cohort with the largest share, going down by shares; None if that only
        showed that some have nothing to give."""
        best: Queue | None = None
        most = NO_SHARE
        for queue in cohort.queues:
            assert isinstance(queue, Queue)
            if queue not in self._left:
                continue
            share = self._share(queue)
            idle = not share.borrowed and queue is not self._preemptor.queue
            if idle or not self._left[queue]:
                del self._left[queue]
            elif best is None or share.order() > most.order():
                best, most = queue, share
            elif share.order() == most.order():
                best = min(best, queue, key=lambda each: self._preemptor.order(self._left[each][0]))
        highest: Node | None = None
        most_of_cohorts = NO_SHARE
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            share = self._share(child)
            if not share.borrowed and child not in self._preemptor.queue.path:
                self._pruned.add(child)
            elif share.order() >= most_of_cohorts.order():
                highest, most_of_cohorts = child, share
        if highest is not None and most_of_cohorts.order() >= most.order():
            return self._next(highest)
        if best is None:
            self._pruned.add(cohort)
        return best

    def _share(self, node: Node) -> Share:
        """Return the share of a node. Nothing below one that has not moved is taken out or added."""
        if node in self._moved:
            return node.share()
        known: Share | None = node.root.known.get(node)
        if known is None:
            known = node.root.known[node] = node.share()
        return known

    def _shares(self, queue: Queue) -> tuple[Share, Share]:
        """Return the shares of the two nodes below the lowest cohort that is above both queues."""
        common = next(each for each in queue.path if each in self._preemptor.queue.path)
        return _below(self._preemptor.queue, common).share(), _below(queue, common).share()


def _below(queue: Queue, common: Node) -> Node:
    """Return the node on the way from a queue to a cohort above it that is a child of the cohort."""
    node: Node = queue
    while node.parent is not None and node.parent is not common:
        node = node.parent
    return node
