"""One scheduling cycle of Kueue (v0.17, pkg/scheduler/scheduler.go): the heads of all queues are judged by
themselves, then taken one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from moorage.kube.model.kueue import ANY, NEWER

from .candidates import PreemptionTarget
from .flavors import FlavorAssigner, FlavorAssignment, FlavorFit, settle
from .pending import FAILED, GENERIC, MISMATCH, PENDING_PREEMPTION
from .pod_policies import PodPolicies
from .preemption import Preemptions
from .quota import Node, Undo
from .settings import Settings
from .snapshot import Queue, QueueSnapshot
from .whole_amounts import FlavorResource
from .workloads import EVICTED, REJECTED, RETRY, AdmittedPods, QueuedWorkload, Usage

OVERLAPPING = "Workload has overlapping preemption targets with another workload"
TAKEN = "Workload no longer fits after processing another workload"
"""Why a head is skipped."""
NOTHING = FlavorAssignment(0)


@dataclass
class Entry:
    """A head, and what a cycle makes of it.

    Attributes
    ----------
    message : str
        Why it is not admitted.
    reason : str
        Of this depends whether it is tried again at once.
    targets : list of PreemptionTarget
        Whom it preempts.
    admitted : list of AdmittedPods, or None
        What it gets; None if it is not admitted.
    """

    workload: QueuedWorkload
    queue: Queue | None
    message: str = ""
    reason: str = GENERIC
    assignment: FlavorAssignment = NOTHING
    targets: list[PreemptionTarget] = field(default_factory=list)
    preempted: list[PreemptionTarget] = field(default_factory=list)
    admitted: list[AdmittedPods] | None = None


class SchedulingCycle:
    """One cycle over a snapshot; what it tries is undone in it.

    Parameters
    ----------
    matches : callable
        Tells whether a queue is for a namespace.
    """

    def __init__(
        self,
        snapshot: QueueSnapshot,
        settings: Settings,
        policies: PodPolicies,
        matches: Callable[[Queue, str], bool],
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._policies = policies
        self._matches = matches
        self._preemptions = Preemptions(snapshot, settings)

    def run(self, heads: Sequence[tuple[QueuedWorkload, str]]) -> tuple[list[Entry], list[Entry]]:
        """Judge the heads of queues.

        Parameters
        ----------
        heads : sequence of (QueuedWorkload, str)
            With the name of the queue that each comes from.

        Returns
        -------
        entries : list of Entry
            Those that could be judged, in the order in which they were decided on.
        refused : list of Entry
            The others.
        """
        entries: list[Entry] = []
        refused: list[Entry] = []
        for workload, name in heads:
            entry = Entry(workload, self._snapshot.queues.get(name))
            entry.message, entry.reason = self._refusal(entry, name)
            if entry.message or entry.queue is None:
                refused.append(entry)
                continue
            self._nominate(entry, entry.queue)
            entries.append(entry)
        decided: list[Entry] = []
        taken: dict[str, QueuedWorkload] = {}
        with Undo() as changes:
            for entry in self._ordered(entries):
                decided.append(entry)
                self._decide(entry, taken, changes)
        return decided, refused

    # ---- nomination

    def _refusal(self, entry: Entry, name: str) -> tuple[str, str]:
        """Return why a head is not judged by quota, and why it is given back; two empty texts if it is."""
        workload, queue = entry.workload, entry.queue
        if workload.checks and (workload.has_check(RETRY) or workload.has_check(REJECTED)):
            return "The workload has failed admission checks", GENERIC
        if queue is None:
            return f"ClusterQueue {name} not found", GENERIC
        if queue.inactive:
            return f"ClusterQueue {name} is inactive", GENERIC
        namespace = workload.obj.namespace
        if not self._matches(queue, namespace):
            return "Workload namespace doesn't match ClusterQueue selector", MISMATCH
        if workload.refusal is None:
            workload.refusal = self._policies.refusal(workload.specs, namespace)
        return workload.refusal, GENERIC

    def _nominate(self, entry: Entry, queue: Queue) -> None:
        """Find flavors for a head, and whom it preempts; one that is like another that did not fit since when
        nothing has changed in the tree gets the same."""
        workload, key = entry.workload, None
        if workload.last is not None and queue.generation > workload.last.generation:
            workload.last = None
        if workload.last is None and workload.is_plain and queue.is_plain:
            rank: tuple[int, ...] = (workload.priority,) if queue.preempts else ()
            if NEWER in (queue.preemption.within_cluster_queue, queue.preemption.reclaim_within_cohort):
                rank = (*rank, workload.queue_time(self._settings))
            key = queue, workload.shape(), rank
        known = queue.root.known.get(key)
        if known is None:
            entry.assignment, entry.targets = self._assign(workload, queue)
            if entry.assignment.fit == FlavorFit.YES:
                return
            known = entry.assignment, entry.assignment.message(), entry.assignment.last()
            if key is not None and not entry.targets:
                queue.root.known[key] = known
        entry.assignment, entry.message, workload.last = known

    def _assign(
        self, workload: QueuedWorkload, queue: Queue
    ) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
        """Return what a workload would get, and whom it would preempt for it."""
        assigner = FlavorAssigner(workload, queue, self._snapshot, self._settings, self._preemptions)
        assignment, preempted = self._attempt(workload, queue, assigner, None)
        if preempted is None and self._settings.gate("PartialAdmission") and workload.can_shrink():
            assignment, preempted = self._fewer(workload, queue, assigner) or (assignment, None)
        targets = preempted or []
        if assignment.fit != FlavorFit.PREEMPT or not self._settings.gate("TopologyAwareScheduling"):
            return assignment, targets
        if queue.is_topology_only or any(
            each.topology_request is not None and each.topology_request.is_explicit
            for each in workload.pod_sets
        ):
            demands = assigner.demands(assignment)
            with Undo() as changes:
                self._snapshot.release_all([target.workload for target in targets], changes)
                settle(assignment, assigner.place(demands, is_empty=not targets))
        return assignment, targets

    def _attempt(
        self,
        workload: QueuedWorkload,
        queue: Queue,
        assigner: FlavorAssigner,
        counts: Sequence[int] | None,
    ) -> tuple[FlavorAssignment, list[PreemptionTarget] | None]:
        """Return an assignment with its targets; None for these if it neither fits nor finds any."""
        assignment = assigner.assign(counts)
        if assignment.fit == FlavorFit.YES:
            return assignment, []
        targets: list[PreemptionTarget] = []
        if assignment.fit == FlavorFit.PREEMPT:
            targets = self._preemptions.targets(workload, queue, assignment, assigner)
        return assignment, targets or None

    def _fewer(
        self, workload: QueuedWorkload, queue: Queue, assigner: FlavorAssigner
    ) -> tuple[FlavorAssignment, list[PreemptionTarget]] | None:
        """Return an assignment for fewer pods, by Go's binary search over the steps down to the fewest."""
        deltas = [
            each.count - (each.count if each.min_count is None else each.min_count)
            for each in workload.pod_sets
        ]
        steps, good = sum(deltas), -1
        smallest: tuple[FlavorAssignment, list[PreemptionTarget]] | None = None
        low, high = 0, steps + 1
        while low < high:
            middle = (low + high) // 2
            counts = [
                each.count - delta * middle // steps
                for each, delta in zip(workload.pod_sets, deltas, strict=True)
            ]
            assignment, targets = self._attempt(workload, queue, assigner, counts)
            if targets is None:
                low = middle + 1
            else:
                high, good, smallest = middle, middle, (assignment, targets)
        return smallest if low == good else None

    # ---- order

    def _ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        if self._settings.fair_sharing is not None:
            by_queue = {entry.queue: entry for entry in entries if entry.queue is not None}
            heads = {
                queue: (entry.workload, entry.assignment.usage(queue)) for queue, entry in by_queue.items()
            }
            return (by_queue[queue] for queue in Tournament(heads, self._settings))
        by_priority = self._settings.gate("PrioritySortingWithinCohort")

        def order(entry: Entry) -> tuple[int, int, int, int]:
            workload = entry.workload
            priority = -workload.priority if by_priority else 0
            return entry.assignment.level, priority, workload.queue_time(self._settings), workload.arrival

        return iter(sorted(entries, key=order))

    # ---- decision

    def _decide(self, entry: Entry, taken: dict[str, QueuedWorkload], changes: Undo) -> None:
        """Admit a head, or let it preempt, if that is still possible beside those before it.

        Parameters
        ----------
        taken : dict of str to QueuedWorkload
            Those that are preempted so far, by key.
        """
        workload, queue, assignment = entry.workload, entry.queue, entry.assignment
        assert queue is not None
        if assignment.fit == FlavorFit.NO:
            return
        if assignment.fit == FlavorFit.PREEMPT and not entry.targets:
            if queue.preemption.reclaim_within_cohort != ANY:
                queue.use(Usage(_reserved(assignment, queue), assignment.domains(queue)), changes)
            return
        if any(target.workload.key in taken for target in entry.targets):
            self._skip(entry, OVERLAPPING)
            return
        usage, root = assignment.usage(queue), queue.root
        # Those of other trees count by the topologies that they share with it.
        near = [
            each
            for each in taken.values()
            if each.usage().domains or self._snapshot.queues[each.cluster_queue].root is root
        ]
        with Undo() as removed:
            self._snapshot.release_all([*near, *[each.workload for each in entry.targets]], removed)
            fits = queue.fits(usage)
        if not fits:
            self._skip(entry, TAKEN)
            return
        taken |= {each.workload.key: each.workload for each in entry.targets}
        queue.use(usage, changes)
        if assignment.fit == FlavorFit.PREEMPT:
            workload.last = None
            entry.preempted = [each for each in entry.targets if not each.workload.is_true(EVICTED)]
            entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
            entry.reason = PENDING_PREEMPTION
            return
        entry.admitted = [pods.admitted() for pods in assignment.pods]

    def _skip(self, entry: Entry, message: str) -> None:
        entry.message, entry.reason = message, FAILED
        entry.workload.last = None


def _reserved(assignment: FlavorAssignment, queue: Queue) -> dict[FlavorResource, int]:
    """Return what a head without targets holds back from those after it."""
    reserved = {}
    for key, value in assignment.quota.items():
        cell = queue.cell(key)
        if not assignment.level:
            reserved[key] = max(0, min(value, cell.nominal - cell.usage))
        elif cell.borrowing is None:
            reserved[key] = value
        else:
            reserved[key] = min(value, cell.nominal + cell.borrowing - cell.usage)
    return reserved


class Tournament:
    """Orders the heads of queues: in each cohort those of its children compete by the share that each child
    would have with its head.

    Parameters
    ----------
    heads : mapping of Queue to (QueuedWorkload, Usage)
        With what they would use.
    """

    def __init__(self, heads: Mapping[Queue, tuple[QueuedWorkload, Usage]], settings: Settings) -> None:
        self._heads = heads
        self._settings = settings
        self._competing: dict[Node, list[_Competitor]] = {}

    def __iter__(self) -> Iterator[Queue]:
        """Yield the queues. What is used between two of them belongs to the first: it changes the shares of
        that queue and of the cohorts above it alone."""
        left = dict.fromkeys(sorted(self._heads, key=lambda queue: queue.name))
        while left:
            queue = next(iter(left))
            if queue.parent is None:
                yield queue
            else:
                winner = self._winner(queue.root)
                assert winner is not None
                queue = winner
                yield queue
                following: Queue | None = None
                for cohort in queue.path:
                    competing = self._competing[cohort]
                    _, at, _ = heappop(competing)
                    if following is not None:
                        heappush(competing, self._competitor(cohort, at, following, not competing))
                    following = self._winner(cohort)
            del left[queue]

    def _winner(self, cohort: Node) -> Queue | None:
        """Return the queue below a cohort whose head goes first."""
        competing = self._competing.get(cohort)
        if competing is None:
            winners = [self._winner(child) for child in cohort.cohorts]
            children = (*winners, *cohort.queues)
            heads = [each for each in children if isinstance(each, Queue) and each in self._heads]
            competing = self._competing[cohort] = [
                self._competitor(cohort, at, queue, len(heads) == 1) for at, queue in enumerate(heads)
            ]
            heapify(competing)
        return competing[0][2] if competing else None

    def _competitor(self, cohort: Node, at: int, queue: Queue, is_alone: bool) -> _Competitor:
        """Return what stands for a child of a cohort: what is smaller for who goes first, which child it is,
        and the queue of its head."""
        if is_alone:
            return (), at, queue
        workload, usage = self._heads[queue]
        with Undo() as changes:
            queue.use(usage, changes)
            share = next(node for node in (queue, *queue.path) if node.parent is cohort).share()
        borrows = any(usage.quota.get(key, 0) > 0 for key in share.borrowed)
        first = borrows and self._settings.gate("FairSharingPrioritizeNonBorrowing")
        by_priority = self._settings.gate("PrioritySortingWithinCohort")
        priority = -workload.priority if by_priority else 0
        order = first, share.order(), priority, workload.queue_time(self._settings), workload.arrival
        return order, at, queue


_Competitor = tuple[tuple[Any, ...], int, Queue]
