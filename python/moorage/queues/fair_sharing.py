"""Who is preempted by shares (Kueue v0.17, pkg/scheduler/preemption/fairsharing)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.kube.model.kueue import NEVER

from .candidates import BY_SHARE, IN_QUEUE, RECLAIMED, PreemptionTarget, Preemptor, RemovedWorkloads
from .quota import NO_SHARE, Node, Share, Undo, undo
from .settings import FINAL, Settings
from .snapshot import Queue, QueueSnapshot
from .workloads import QueuedWorkload


def preempted_by_share(
    snapshot: QueueSnapshot, settings: Settings, preemptor: Preemptor
) -> list[PreemptionTarget]:
    """Return whom a workload preempts by shares."""
    candidates = sorted(_candidates(settings, preemptor), key=preemptor.order)
    if not candidates:
        return []
    removal = RemovedWorkloads(snapshot)
    added: Undo = []
    preemptor.queue.use(preemptor.usage, added)
    search = _ShareSearch(settings, preemptor, removal)
    try:
        fits = search.first(candidates, settings.strategies[0] == FINAL)
        if not fits and len(settings.strategies) > 1:
            fits = search.second()
        preemptor.queue.release(preemptor.usage, removal.changes)
        return removal.without_needless(preemptor, True) if fits else []
    finally:
        undo(removal.changes)
        undo(added)


def _candidates(settings: Settings, preemptor: Preemptor) -> Iterator[QueuedWorkload]:
    queue, policies = preemptor.queue, preemptor.queue.preemption
    if policies.within_cluster_queue != NEVER:
        yield from preemptor.candidates(queue, policies.within_cluster_queue, settings)
    if queue.parent is not None and policies.reclaim_within_cohort != NEVER:
        for other in queue.root().all_queues():
            assert isinstance(other, Queue)
            if other is not queue and not other.is_within_quota(preemptor.needed):
                yield from preemptor.candidates(other, policies.reclaim_within_cohort, settings)


class _ShareSearch:
    """Takes candidates out of the queue with the largest share, again and again."""

    def __init__(self, settings: Settings, preemptor: Preemptor, removal: RemovedWorkloads) -> None:
        self._within_nominal = settings.gate("FairSharingPreemptWithinNominal")
        self._preemptor = preemptor
        self._removal = removal
        self._ancestors = preemptor.queue.cohort_path
        self._left: dict[str, list[QueuedWorkload]] = {}
        self._pruned: set[Node] = set()
        self._kept: list[QueuedWorkload] = []

    def _begin(self, candidates: Iterable[QueuedWorkload]) -> None:
        self._left, self._pruned = {}, set()
        for each in candidates:
            self._left.setdefault(each.cluster_queue, []).append(each)

    def first(self, candidates: Iterable[QueuedWorkload], by_final_share: bool) -> bool:
        """Take candidates by the first rule; return whether the preemptor fits."""
        self._begin(candidates)
        own = self._preemptor.queue
        is_within = self._within_nominal and own.is_within_quota(self._preemptor.needed)
        for queue in self._queues():
            left = self._left[queue.name]
            if queue is own or is_within:
                if self._take(left.pop(0), IN_QUEUE if queue is own else RECLAIMED):
                    return True
                continue
            mine, theirs = self._shares(queue)
            while left:
                candidate = left.pop(0)
                if by_final_share:
                    passes = mine.order() <= self._share_without(queue, candidate).order()
                else:
                    passes = mine.order() < theirs.order()
                if passes:
                    if self._take(candidate, BY_SHARE):
                        return True
                    break
                self._kept.append(candidate)
        return False

    def second(self) -> bool:
        """Take one candidate of each queue at most, of those that the first rule has passed over."""
        self._begin(self._kept)
        for queue in self._queues():
            mine, theirs = self._shares(queue)
            taken = mine.order() < theirs.order() and self._take(self._left[queue.name].pop(0), BY_SHARE)
            if taken:
                return True
            self._pruned.add(queue)
        return False

    def _take(self, candidate: QueuedWorkload, reason: str) -> bool:
        """Take a candidate out; return whether the preemptor fits then."""
        self._removal.take(candidate, reason)
        preemptor = self._preemptor
        changes: Undo = []
        preemptor.queue.release(preemptor.usage, changes)
        fits = preemptor.fits(borrows=True)
        undo(changes)
        return fits

    def _queues(self) -> Iterator[Queue]:
        """Yield the queue that is next, as long as there is one."""
        own = self._preemptor.queue
        if own.parent is None:
            while self._left.get(own.name):
                yield own
            return
        root = own.root()
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
            if queue in self._pruned:
                continue
            share = queue.share()
            idle = not share.borrowed and queue is not self._preemptor.queue
            if idle or not self._left.get(queue.name):
                self._pruned.add(queue)
            elif best is None or share.order() > most.order():
                best, most = queue, share
            elif share.order() == most.order() and self._first(queue) < self._first(best):
                best = queue
        highest: Node | None = None
        most_of_cohorts = NO_SHARE
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            share = child.share()
            if not share.borrowed and child not in self._ancestors:
                self._pruned.add(child)
            elif share.order() >= most_of_cohorts.order():
                highest, most_of_cohorts = child, share
        if highest is not None and most_of_cohorts.order() >= most.order():
            return self._next(highest)
        if best is None:
            self._pruned.add(cohort)
        return best

    def _first(self, queue: Queue) -> tuple[object, ...]:
        return self._preemptor.order(self._left[queue.name][0])

    def _shares(self, queue: Queue) -> tuple[Share, Share]:
        """Return the shares of the two nodes below the lowest cohort that is above both queues."""
        common = next(each for each in queue.cohort_path if each in self._ancestors)
        return _below(self._preemptor.queue, common).share(), _below(queue, common).share()

    def _share_without(self, queue: Queue, candidate: QueuedWorkload) -> Share:
        changes: Undo = []
        queue.release(candidate.usage(), changes)
        _, share = self._shares(queue)
        undo(changes)
        return share


def _below(queue: Queue, common: Node) -> Node:
    """Return the node on the way from a queue to a cohort above it that is a child of the cohort."""
    node: Node = queue
    while node.parent is not None and node.parent is not common:
        node = node.parent
    return node
