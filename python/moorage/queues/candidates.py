"""Workloads that look for others to preempt, and those that are taken out for them (Kueue v0.17,
pkg/scheduler/preemption: preemption.go, common)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from moorage.kube.model.kueue import ANY, LOWER, NEVER, NEWER
from moorage.lazy import NamedTuple

from .flavors import FlavorAssigner
from .quota import Undo
from .settings import Settings
from .snapshot import Queue, QueueSnapshot
from .topology_snapshot import TopologyDemand
from .whole_amounts import FlavorResource
from .workloads import JOB_UID, WHILE_BORROWING, QueuedWorkload, Usage

IN_QUEUE, RECLAIMED, BY_SHARE = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
REASONS = {
    IN_QUEUE: "prioritization in the ClusterQueue",
    RECLAIMED: "reclamation within the cohort",
    BY_SHARE: "Fair Sharing within the cohort",
    WHILE_BORROWING: "reclamation within the cohort while borrowing",
}
"""Why workloads are preempted, as Kueue says it."""
_BUFFER = 5 * 60 * 1000


class PreemptionTarget(NamedTuple):
    """A workload that is preempted.

    Attributes
    ----------
    reason : str
        InClusterQueue, InCohortReclamation, InCohortReclaimWhileBorrowing or InCohortFairSharing.
    """

    workload: QueuedWorkload
    reason: str

    def message(self, preemptor: QueuedWorkload, queue: Queue, target: Queue) -> str:
        """Return what Kueue writes into its conditions."""
        job = preemptor.obj.metadata.labels.get(JOB_UID, "")
        return (
            f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
            f"JobUID: {job or 'UNKNOWN'}) due to {REASONS[self.reason]}; preemptor path: {_path(queue)}; "
            f"preemptee path: {_path(target)}"
        )


def _path(queue: Queue) -> str:
    names = [queue.name, *[cohort.name for cohort in queue.path]]
    return f"/{'/'.join(reversed(names))}"


class Preemptor(NamedTuple):
    """A workload that looks for others to preempt.

    Attributes
    ----------
    needed : frozenset of (str, str)
        The resources of flavors that it lacks.
    usage : Usage
        What it would use.
    """

    workload: QueuedWorkload
    queue: Queue
    needed: frozenset[FlavorResource]
    usage: Usage
    demands: Mapping[str, list[TopologyDemand]]
    assigner: FlavorAssigner | None

    def fits(self, borrows: bool) -> bool:
        """Whether it fits now, borrowing or not."""
        for key, value in self.usage.quota.items():
            if not borrows and self.queue.cell(key).borrows_with(value):
                return False
            if value > self.queue.available(key):
                return False
        if not self.demands or self.assigner is None:
            return True
        placed = self.assigner.place(self.demands)
        return not any(isinstance(place, str) for place in placed.values())

    def allows(self, candidate: QueuedWorkload, policy: str, settings: Settings) -> bool:
        """Whether a policy lets it preempt a workload."""
        own, other = self.workload.priority, candidate.priority
        if policy == ANY or (policy in (LOWER, NEWER) and own > other):
            return True
        if policy != NEWER or own != other:
            return False
        later = candidate.queue_time(settings) - self.workload.queue_time(settings)
        return later > (_BUFFER if settings.gate("SchedulerTimestampPreemptionBuffer") else 0)

    def candidates(self, queue: Queue, policy: str, settings: Settings) -> Iterator[QueuedWorkload]:
        """Yield those of a queue that have what it needs, and that a policy lets it preempt."""
        return (each for each in queue.holders(self.needed) if self.allows(each, policy, settings))

    def by_queue(self, snapshot: QueueSnapshot, settings: Settings) -> dict[Queue, deque[QueuedWorkload]]:
        """Return whom it may preempt of its queue, and of others beyond their quota, in the order in which
        they go; what it may take of others is the same for all of its priority, until their tree changes."""
        own, workload, needed = self.queue, self.workload, self.needed
        within, policy = own.preemption.within_cluster_queue, own.preemption.reclaim_within_cohort
        key = needed, policy, workload.priority, workload.queue_time(settings) if policy == NEWER else 0
        of_tree: dict[Queue, list[QueuedWorkload]] | None = own.root.known.get(key)
        if of_tree is None:
            of_tree = own.root.known[key] = {
                queue: allowed
                for queue in snapshot.trees[own.root]
                if policy != NEVER and not queue.inactive and not queue.is_within_quota(needed)
                if (allowed := [*self.candidates(queue, policy, settings)])
            }
        left = {queue: deque(allowed) for queue, allowed in of_tree.items() if queue is not own}
        if within != NEVER and (allowed := [*self.candidates(own, within, settings)]):
            left[own] = deque(allowed)
        return left

    def order(self, candidate: QueuedWorkload) -> tuple[bool, bool, tuple[bool, int, int, str]]:
        """What is smaller for whom it preempts first."""
        rank = candidate.rank()
        return rank[0], candidate.cluster_queue == self.queue.name, rank


class RemovedWorkloads:
    """Workloads that are taken out of a snapshot, one by one, and put back.

    Attributes
    ----------
    targets : list of PreemptionTarget
        Those taken out.
    """

    def __init__(self, snapshot: QueueSnapshot) -> None:
        self._queues = snapshot.queues
        self.targets: list[PreemptionTarget] = []
        self.changes = Undo()

    def queue_of(self, workload: QueuedWorkload) -> Queue:
        """Return the queue whose quota a workload holds."""
        return self._queues[workload.cluster_queue]

    def take(self, workload: QueuedWorkload, reason: str) -> None:
        """Take a workload out."""
        self.queue_of(workload).release(workload.usage(), self.changes)
        self.targets.append(PreemptionTarget(workload, reason))

    def without_needless(self, preemptor: Preemptor, borrows: bool) -> list[PreemptionTarget]:
        """Put back those without which the preemptor still fits, the last but one first; return the others.
        The place of one that is put back is taken by the last."""
        targets = self.targets
        for at in range(len(targets) - 2, -1, -1):
            workload = targets[at].workload
            self.queue_of(workload).use(workload.usage(), self.changes)
            if preemptor.fits(borrows):
                targets[at] = targets[-1]
                targets.pop()
            else:
                self.queue_of(workload).release(workload.usage(), self.changes)
        return targets
