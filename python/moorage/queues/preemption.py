"""Whom a workload preempts (Kueue v0.17, pkg/scheduler/preemption: preemption.go, classical)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from moorage.kube.model.kueue import NEVER
from moorage.lazy import NamedTuple

from .candidates import IN_QUEUE, RECLAIMED, PreemptionTarget, Preemptor, RemovedWorkloads
from .fair_sharing import preempted_by_share
from .flavors import FlavorAssigner, FlavorAssignment, Mode, Rank
from .quota import Node, Undo, fit_in_quota
from .settings import Settings
from .snapshot import Queue, QueueSnapshot
from .whole_amounts import FlavorResource
from .workloads import WHILE_BORROWING, QueuedWorkload, Usage


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

    def order(self) -> tuple[bool, bool, bool, tuple[bool, int, int, str]]:
        """What is smaller for who goes first: who is evicted already; then those over which the preemptor has
        an advantage, others of its cohort, and those of its own queue."""
        has_advantage = self.reason == RECLAIMED and not self.forbids_borrowing
        rank = self.workload.rank()
        return rank[0], self.above is None, not has_advantage, rank


class _Borrowers(NamedTuple):
    """Workloads below a cohort in queues beyond their quota, in the order in which they go.

    Attributes
    ----------
    seen : Node, or None
        A part of the cohort whose workloads belong elsewhere.
    advantage : bool
        Whether what the preemptor asks for fits into a quota below the cohort.
    """

    workloads: Sequence[QueuedWorkload]
    cohort: Node
    seen: Node | None
    advantage: bool


class Preemptions:
    """Finds whom workloads preempt in one cycle, by priorities or, with fair sharing, by shares."""

    def __init__(self, snapshot: QueueSnapshot, settings: Settings) -> None:
        self.snapshot = snapshot
        self.settings = settings
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
        with Undo() as changes:
            self.snapshot.release_all([target.workload for target in targets], changes)
            level, _ = queue.lowest_fit(key, value)
        if not targets:
            return Rank(Mode.NO_CANDIDATES, level)
        own = any(target.workload.cluster_queue == queue.name for target in targets)
        return Rank(Mode.PREEMPT if own else Mode.RECLAIM, level)

    def _targets(self, preemptor: Preemptor) -> list[PreemptionTarget]:
        if self.settings.fair_sharing is not None:
            return preempted_by_share(self.snapshot, self.settings, preemptor)
        queue, policy = preemptor.queue, preemptor.queue.preemption.within_cluster_queue
        own: list[QueuedWorkload] = []
        if policy != NEVER:
            own += preemptor.candidates(queue, policy, self.settings)
        borrows_only = self._borrows_only(preemptor, own)
        groups = [*self._groups(preemptor)]
        attempts: Sequence[bool] = (True, False)
        if borrows_only or next(self._of_other_queues(preemptor, groups, False), None) is None:
            attempts = (True,)
        elif _forbids_borrowing(queue) and next(self._of_other_queues(preemptor, groups, True), None) is None:
            attempts = (False, True)
        for borrows in attempts:
            removal = RemovedWorkloads(self.snapshot)
            others = self._of_other_queues(preemptor, groups, borrows)
            ours = (_RankedCandidate(each, None, IN_QUEUE, False) for each in own)
            with removal.changes:
                for candidate in merge(others, ours, key=_RankedCandidate.order):
                    if self._is_valid(candidate, preemptor):
                        removal.take(candidate.workload, candidate.reason)
                        if preemptor.fits(borrows):
                            return removal.without_needless(preemptor, borrows)
        return []

    # ---- who may be preempted

    def _borrows_only(self, preemptor: Preemptor, own: Sequence[QueuedWorkload]) -> bool:
        """Whether the preemptor can only borrow: its queue has no more than its quota, or would even without
        all candidates of its own."""
        queue = preemptor.queue
        is_below = all(queue.cell(key).usage < queue.cell(key).nominal for key in preemptor.needed)
        if _forbids_borrowing(queue) and not is_below:
            return True
        with Undo() as changes:
            self.snapshot.release_all(own, changes)
            return any(queue.cell(key).borrows_with(value) for key, value in preemptor.usage.quota.items())

    def _groups(self, preemptor: Preemptor) -> Iterator[_Borrowers]:
        """Yield the workloads of other queues that may go, by the cohorts above the preemptor."""
        queue, policies = preemptor.queue, preemptor.queue.preemption
        if queue.parent is None or policies.reclaim_within_cohort == NEVER:
            return
        advantage, rest = fit_in_quota(queue, preemptor.usage.quota)
        seen: Node | None = None
        for cohort in queue.path:
            borrowers = queue.root.known.get((cohort, preemptor.needed))
            if borrowers is None:
                exceeding = _exceeding(cohort, preemptor.needed)
                of_all = [each for other in exceeding for each in other.holders(preemptor.needed)]
                borrowers = sorted(of_all, key=QueuedWorkload.rank)
                queue.root.known[cohort, preemptor.needed] = borrowers
            yield _Borrowers(borrowers, cohort, seen, advantage)
            fits, rest = fit_in_quota(cohort, rest)
            advantage, seen = advantage or fits, cohort

    def _of_other_queues(
        self, preemptor: Preemptor, groups: Iterable[_Borrowers], borrows: bool
    ) -> Iterator[_RankedCandidate]:
        """Return the candidates of other queues in their order, without those that do not go for a preemptor
        that borrows."""

        def allowed(group: _Borrowers) -> Iterator[_RankedCandidate]:
            policy = preemptor.queue.preemption.reclaim_within_cohort
            for each in group.workloads:
                queue = self.snapshot.queues[each.cluster_queue]
                if queue is preemptor.queue or group.seen in queue.path:
                    continue
                if preemptor.allows(each, policy, self.settings):
                    candidate = _classified(each, group.cohort, group.advantage, preemptor)
                    if not (borrows and candidate.forbids_borrowing):
                        yield candidate

        if borrows and _forbids_borrowing(preemptor.queue):
            groups = [group for group in groups if group.advantage]
        return merge(*[allowed(group) for group in groups], key=_RankedCandidate.order)

    def _is_valid(self, candidate: _RankedCandidate, preemptor: Preemptor) -> bool:
        """Whether a candidate still counts, after those before it."""
        if candidate.above is None:
            return True
        queue = self.snapshot.queues[candidate.workload.cluster_queue]
        if queue.is_within_quota(preemptor.needed):
            return False
        for cohort in queue.path:
            if cohort is candidate.above:
                break
            if cohort.is_within_quota(preemptor.needed):
                return False
        return True


def _exceeding(cohort: Node, needed: frozenset[FlavorResource]) -> Iterator[Queue]:
    """Yield the queues of a subtree that use more than their quota of what is needed; cohorts within their
    quota are passed over with all below them."""
    for child in cohort.cohorts:
        if not child.is_within_quota(needed):
            yield from _exceeding(child, needed)
    for queue in cohort.queues:
        if not queue.is_within_quota(needed):
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
