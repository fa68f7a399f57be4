"""Whom a workload preempts (Kueue v0.17, pkg/scheduler/preemption: preemption.go, classical)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moorage.kube.model.kueue import NEVER

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


class Preemptions:
    """Finds whom workloads preempt, by priorities or, with fair sharing, by shares.

    Parameters
    ----------
    now : int
        In milliseconds.
    """

    def __init__(self, snapshot: QueueSnapshot, settings: Settings, now: int) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.now = now

    def targets(
        self, workload: QueuedWorkload, queue: Queue, assignment: FlavorAssignment, assigner: FlavorAssigner
    ) -> list[PreemptionTarget]:
        """Return whom a workload preempts for an assignment."""
        if not queue.preempts:
            return []
        quota = assignment.requested()
        demands = assigner.demands(assignment) if self.settings.gate("TopologyAwareScheduling") else {}
        usage = Usage(quota, {})
        return self._targets(Preemptor(workload, queue, assignment.needed(), usage, demands, assigner))

    def simulate(self, workload: QueuedWorkload, queue: Queue, key: FlavorResource, value: int) -> Rank:
        """Return whose workloads would go for one resource of a flavor, and how far it would borrow then."""
        usage = Usage({key: value}, {})
        targets = self._targets(Preemptor(workload, queue, frozenset([key]), usage, {}, None))
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
            return preempted_by_share(self.snapshot, self.settings, self.now, preemptor)
        candidates = self._candidates(preemptor)
        if not candidates:
            return []
        for borrows in self._attempts(preemptor, candidates):
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

    def _candidates(self, preemptor: Preemptor) -> list[_RankedCandidate]:
        """Return all candidates: those evicted, then the others; of each those over which the preemptor has
        an advantage, those by priority, and those of its own queue."""
        queue, policies = preemptor.queue, preemptor.queue.preemption
        lists: tuple[list[_RankedCandidate], ...] = ([], [], [])
        if policies.within_cluster_queue != NEVER:
            for each in preemptor.candidates(queue, policies.within_cluster_queue, self.settings):
                lists[2].append(_RankedCandidate(each, None, IN_QUEUE, False))
        if queue.parent is not None and policies.reclaim_within_cohort != NEVER:
            advantage, rest = fit_in_quota(queue, preemptor.usage.quota)
            seen: Node | None = None
            for cohort in queue.cohort_path:
                for other in _exceeding(cohort, seen, preemptor):
                    for each in preemptor.candidates(other, policies.reclaim_within_cohort, self.settings):
                        lists[not advantage].append(self._classified(each, cohort, advantage, preemptor))
                fits, rest = fit_in_quota(cohort, rest)
                advantage, seen = advantage or fits, cohort
        ordered = [
            sorted(each, key=lambda candidate: preemptor.order(candidate.workload, self.now))
            for each in lists
        ]
        return [
            candidate
            for evicted in (True, False)
            for each in ordered
            for candidate in each
            if candidate.workload.is_true(EVICTED) == evicted
        ]

    def _classified(
        self, workload: QueuedWorkload, cohort: Node, advantage: bool, preemptor: Preemptor
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
        return _RankedCandidate(
            workload, cohort, WHILE_BORROWING if may_borrow else RECLAIMED, not may_borrow
        )

    def _attempts(self, preemptor: Preemptor, candidates: Sequence[_RankedCandidate]) -> Sequence[bool]:
        """Return whether the preemptor may borrow, in each attempt."""
        queue = preemptor.queue
        is_forbidden = queue.preemption.borrow_within_cohort.policy == NEVER
        others = [each for each in candidates if each.above is not None]
        is_below = all(queue.cell(key).usage < queue.cell(key).nominal for key in preemptor.needed)
        if not others or (is_forbidden and not is_below):
            return (True,)
        if is_forbidden and all(each.forbids_borrowing for each in others):
            return (False, True)
        return (True, False)

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
