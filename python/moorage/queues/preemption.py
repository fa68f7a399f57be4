"""Whom a workload preempts (Kueue v0.17, pkg/scheduler/preemption: preemption.go, classical)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.kube.model.kueue import NEVER
from moorage.lazy import NamedTuple

from .candidates import IN_QUEUE, RECLAIMED, PreemptionTarget, Preemptor, RemovedWorkloads
from .fair_sharing import preempted_by_share
from .flavors import FlavorAssigner, FlavorAssignment, Mode, Rank
from .quota import Node, Undo, fit_in_quota, undo
from .settings import Settings
from .snapshot import Queue, QueueSnapshot
from .whole_amounts import FlavorResource
from .workloads import EVICTED, WHILE_BORROWING, QueuedWorkload, Usage


class _RankedCandidate(NamedTuple):
    """A workload that may be preempted.

    Attributes
    ----------
    above : Node, or None
        The lowest cohort that its queue and that of the preemptor have in common; None in the same queue.
    """

    workload: QueuedWorkload
    above: Node | None
    reason: str
    forbids_borrowing: bool

    def order(self) -> tuple[bool, bool, bool, tuple[int, int, str]]:
        """What is smaller for who goes first: who is evicted already; then those over which the preemptor has
        an advantage, others of its cohort, and those of its own queue."""
        has_advantage = self.reason == RECLAIMED and not self.forbids_borrowing
        is_evicted = self.workload.is_true(EVICTED)
        return not is_evicted, self.above is None, not has_advantage, self.workload.rank()


class Preemptions:
    """Finds whom workloads preempt in one cycle, by priorities or, with fair sharing, by shares."""

    def __init__(self, snapshot: QueueSnapshot, settings: Settings) -> None:
        self.snapshot = snapshot
        self.settings = settings
        # What all heads would take is found before any of them takes it.
        self._simulated: dict[tuple[str, FlavorResource, int], list[PreemptionTarget]] = {}

    def targets(
        self, workload: QueuedWorkload, queue: Queue, assignment: FlavorAssignment, assigner: FlavorAssigner
    ) -> list[PreemptionTarget]:
        """Return whom a workload preempts for an assignment."""
        if not queue.preempts:
            return []
        quota = assignment.requested()
        demands = assigner.demands(assignment) if self.settings.gate("TopologyAwareScheduling") else {}
        if len(quota) == 1 and not demands:
            known = self._simulated.get((workload.key, *next(iter(quota.items()))))
            if known is not None:
                return known
        usage = Usage(quota, {})
        return self._targets(Preemptor(workload, queue, assignment.needed(), usage, demands, assigner))

    def simulate(self, workload: QueuedWorkload, queue: Queue, key: FlavorResource, value: int) -> Rank:
        """Return whose workloads would go for one resource of a flavor, and how far it would borrow then."""
        usage = Usage({key: value}, {})
        targets = self._targets(Preemptor(workload, queue, frozenset([key]), usage, {}, None))
        self._simulated[workload.key, key, value] = targets
        changes: Undo = []
        self.snapshot.release_all([target.workload for target in targets], changes)
        level, _ = queue.lowest_fit(key, value)
        undo(changes)
        if not targets:
            return Rank(Mode.NO_CANDIDATES, level)
        own = any(target.workload.cluster_queue == queue.name for target in targets)
        return Rank(Mode.PREEMPT if own else Mode.RECLAIM, level)

    def _targets(self, preemptor: Preemptor) -> list[PreemptionTarget]:
        if self.settings.fair_sharing is not None:
            return preempted_by_share(self.snapshot, self.settings, preemptor)
        queue, policy = preemptor.queue, preemptor.queue.preemption.within_cluster_queue
        own = [] if policy == NEVER else [*preemptor.candidates(queue, policy, self.settings)]
        borrows_only = self._borrows_only(preemptor, own)
        others = [*self._of_other_queues(preemptor, borrows_only)]
        candidates = [*others, *[_RankedCandidate(each, None, IN_QUEUE, False) for each in own]]
        candidates.sort(key=_RankedCandidate.order)
        attempts: Sequence[bool] = (True, False)
        if not others or borrows_only:
            attempts = (True,)
        elif _forbids_borrowing(queue) and all(each.forbids_borrowing for each in others):
            attempts = (False, True)
        for borrows in attempts:
            removal = RemovedWorkloads(self.snapshot)
            try:
                for candidate in candidates:
                    if self._is_valid(candidate, preemptor, borrows):
                        removal.take(candidate.workload, candidate.reason)
                        if preemptor.fits(borrows):
                            return removal.without_needless(preemptor, borrows)
            finally:
                undo(removal.changes)
        return []

    # ---- who may be preempted

    def _borrows_only(self, preemptor: Preemptor, own: Sequence[QueuedWorkload]) -> bool:
        """Whether the preemptor can only borrow: its queue has no more than its quota, or would even without
        all candidates of its own."""
        queue = preemptor.queue
        is_below = all(queue.cell(key).usage < queue.cell(key).nominal for key in preemptor.needed)
        if _forbids_borrowing(queue) and not is_below:
            return True
        changes: Undo = []
        self.snapshot.release_all(own, changes)
        exceeds = any(queue.cell(key).borrows_with(value) for key, value in preemptor.usage.quota.items())
        undo(changes)
        return exceeds

    def _of_other_queues(self, preemptor: Preemptor, borrows_only: bool) -> Iterator[_RankedCandidate]:
        """Yield the candidates of other queues of the cohort, without those that never go."""
        queue, policies = preemptor.queue, preemptor.queue.preemption
        if queue.parent is None or policies.reclaim_within_cohort == NEVER:
            return
        advantage, rest = fit_in_quota(queue, preemptor.usage.quota)
        seen: Node | None = None
        for cohort in queue.cohort_path:
            if advantage or not (borrows_only and _forbids_borrowing(queue)):
                for other in _exceeding(cohort, seen, preemptor):
                    for each in preemptor.candidates(other, policies.reclaim_within_cohort, self.settings):
                        candidate = _classified(each, cohort, advantage, preemptor)
                        if not (borrows_only and candidate.forbids_borrowing):
                            yield candidate
            fits, rest = fit_in_quota(cohort, rest)
            advantage, seen = advantage or fits, cohort

    def _is_valid(self, candidate: _RankedCandidate, preemptor: Preemptor, borrows: bool) -> bool:
        """Whether a candidate still counts, after those before it."""
        if candidate.above is None:
            return True
        if borrows and candidate.forbids_borrowing:
            return False
        queue = self.snapshot.queues[candidate.workload.cluster_queue]
        if queue.is_within_quota(preemptor.needed):
            return False
        for cohort in queue.cohort_path:
            if cohort is candidate.above:
                break
            if cohort.is_within_quota(preemptor.needed):
                return False
        return True


def _exceeding(cohort: Node, seen: Node | None, preemptor: Preemptor) -> Iterator[Queue]:
    """Yield the queues of a subtree that use more than their quota of what is needed, but for a part that was
    seen before; cohorts within their quota are passed over with all below them."""
    for child in cohort.cohorts:
        if child is not seen and not child.is_within_quota(preemptor.needed):
            yield from _exceeding(child, seen, preemptor)
    for queue in cohort.queues:
        if queue is not preemptor.queue and not queue.is_within_quota(preemptor.needed):
            assert isinstance(queue, Queue)
            yield queue


def _forbids_borrowing(queue: Queue) -> bool:
    return queue.preemption.borrow_within_cohort.policy == NEVER


def _classified(
    workload: QueuedWorkload, cohort: Node, advantage: bool, preemptor: Preemptor
) -> _RankedCandidate:
    if advantage:
        return _RankedCandidate(workload, cohort, RECLAIMED, False)
    borrowing = preemptor.queue.preemption.borrow_within_cohort
    threshold = borrowing.max_priority_threshold
    may_borrow = (
        borrowing.policy != NEVER
        and workload.priority < preemptor.workload.priority
        and (threshold is None or workload.priority <= threshold)
    )
    return _RankedCandidate(workload, cohort, WHILE_BORROWING if may_borrow else RECLAIMED, not may_borrow)
