"""Kueue over the objects of a cluster: its cycles, and what its controllers make of them (v0.17,
pkg/controller/core/workload_controller.go, pkg/cache/queue/manager.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from moorage.errors import InputError
from moorage.grouped import grouped
from moorage.kube.model.kueue import DRAIN, RUN, ClusterQueue, Cohort, LocalQueue, Workload
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Namespace
from moorage.kube.model.node import Node as ClusterNode
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import LimitRange, RuntimeClass

from .pending import PendingQueue
from .pod_policies import PodPolicies
from .queue_cycle import Entry, SchedulingCycle
from .quota import Node
from .settings import Settings
from .snapshot import Queue, QueueSnapshot
from .workloads import (
    ADMITTED,
    BY_CHECK,
    BY_PREEMPTION,
    BY_TIMEOUT,
    EVICTED,
    FINISHED,
    PENDING,
    PREEMPTED,
    READY,
    REJECTED,
    REQUEUED,
    RESERVED,
    RETRY,
    TARGET,
    AdmittedPods,
    CheckState,
    QueuedWorkload,
)

_INADMISSIBLE, _DEACTIVATED = "Inadmissible", "Deactivated"
_QUEUE_STOPPED, _LOCAL_STOPPED = "ClusterQueueStopped", "LocalQueueStopped"
_RETURNS = {
    _DEACTIVATED: ("Reactivated", "The workload was reactivated"),
    BY_TIMEOUT: ("BackoffFinished", "The workload backoff was finished"),
    BY_CHECK: ("BackoffFinished", "The workload backoff was finished"),
    _LOCAL_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    _QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
}
"""Reason and message of the condition Requeued once the reason why it was False is over."""
_SECOND = 1000

T = TypeVar("T", bound=Object)
_MOST_CYCLES, _REPEATED = 100_000, 3


@dataclass(frozen=True)
class AdmittedWorkload:
    """A workload that has got quota.

    Attributes
    ----------
    pods : tuple of AdmittedPods
        By pod set: how many, with which flavors, in which domains of their topology.
    is_reserved_only : bool
        It waits for its admission checks.
    considered : str
        What Kueue's event says of flavors that were not simply fit.
    """

    workload: str
    cluster_queue: str
    pods: tuple[AdmittedPods, ...]
    is_reserved_only: bool
    considered: str


@dataclass(frozen=True)
class PreemptedWorkload:
    """A workload that goes for another one.

    Attributes
    ----------
    reason : {"InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"}
    message : str
        What Kueue writes into its conditions.
    """

    workload: str
    by: str
    reason: str
    message: str


@dataclass(frozen=True)
class Cycle:
    """What a cycle has decided; workloads are named ``namespace/name``.

    Attributes
    ----------
    attempts : tuple of str
        The heads that were judged, in the order in which they were decided on.
    admitted : tuple of AdmittedWorkload
        In this order, too.
    preempted : tuple of PreemptedWorkload
        By name.
    waiting : dict of str to str
        Why each other head was not admitted, in Kueue's words.
    evicted : dict of str to str
        Evictions for other reasons since the last cycle: reason and message of the event.
    """

    attempts: tuple[str, ...] = ()
    admitted: tuple[AdmittedWorkload, ...] = ()
    preempted: tuple[PreemptedWorkload, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    evicted: Mapping[str, str] = field(default_factory=dict)


class Kueue:
    """Queues, cohorts and workloads of a cluster, as Kueue's scheduler and controllers treat them.

    Parameters
    ----------
    objects : iterable of Object
        Those of Kueue (`read_object`), with Namespaces, Nodes, Pods, LimitRanges and RuntimeClasses; other
        kinds are passed over.
    now : int
        The time in milliseconds since 1970.
    release_after : int
        For how many cycles more an evicted workload holds its quota.

    Attributes
    ----------
    workloads : dict of str to QueuedWorkload
        By ``namespace/name``.
    endless : dict of str to tuple of str
        The workloads that preempt others again and again, and whom. Nothing is decided until something
        changes outside of Kueue.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        settings: Settings | None = None,
        now: int = 0,
        release_after: int = 0,
    ) -> None:
        self.settings = settings or Settings()
        self.now = now
        self.workloads: dict[str, QueuedWorkload] = {}
        self._objects: dict[tuple[str, str], Object] = {}
        self._release_after = release_after
        self._pending: dict[str, PendingQueue] = {}
        self._busy: set[str] = set()  # the queues with workloads that are tried
        self._snapshot: QueueSnapshot | None = None
        self._policies = PodPolicies((), self.settings)
        self._local: dict[tuple[str, str], LocalQueue] = {}
        self._generations: dict[str, int] = {}
        self._touched: dict[str, None] = {}
        self._retried: dict[str, None] = {}
        self._leaving: dict[str, int] = {}
        self._held_back: dict[str, None] = {}  # those that may be tried only after some time
        self._evicted: dict[str, str] = {}
        self._queued: set[str] = set()
        self._moved: dict[str, None] = {}
        self._decided: dict[str, None] = {}
        self._round = 1
        self.endless: dict[str, tuple[str, ...]] = {}
        self._preempting: Counter[object] = Counter()  # what was decided, since the last change outside
        given = list(objects)
        for obj in given:
            if not isinstance(obj, Workload):
                self._objects[obj.kind, obj.key] = obj
        self._read()
        for obj in given:
            if isinstance(obj, Workload):
                self._create(obj)
                self._queued.add(obj.key)
        self.settle()

    def configure(self, settings: Settings) -> None:
        """Go on with another configuration, as after a restart."""
        self._begin_anew()
        self.settings = settings
        self._pending.clear()
        self._busy.clear()
        self._read()
        for workload in self.workloads.values():
            workload.adjust(self._policies)
            self._enter(workload)

    def copy(self) -> Kueue:
        """Return one that goes on from here by itself."""
        new = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set):
                setattr(new, name, value.copy())
        new._generations, new._snapshot = self._known_generations(), None
        new.workloads = {key: workload.copy() for key, workload in self.workloads.items()}
        new._busy = self._busy.copy()
        new._pending = {name: queue.copy(new.workloads, new._busy) for name, queue in self._pending.items()}
        return new

    def take_moved(self) -> list[str]:
        """Return which workloads have got or lost their admission since the last call."""
        moved, self._moved = self._moved, {}
        return [*moved]

    def take_decided(self) -> list[str]:
        """Return which workloads are new, have changed in anything, or are gone since the last call."""
        decided, self._decided = self._decided, {}
        return [*decided]

    # ---- objects

    def _known_generations(self) -> dict[str, int]:
        if self._snapshot is None:
            return self._generations
        return {name: queue.generation for name, queue in self._snapshot.queues.items()}

    @property
    def snapshot(self) -> QueueSnapshot:
        """All queues with what is used of them."""
        if self._snapshot is None:
            self._snapshot = QueueSnapshot(self._objects.values(), self.settings)
            for name, queue in self._snapshot.queues.items():
                queue.generation = self._generations.get(name, 1)
            for workload in self.workloads.values():
                if workload.counts:
                    self._snapshot.admit(workload)
        return self._snapshot

    def _read(self) -> None:
        """Take over what the objects say."""
        self._generations = self._known_generations()
        self._snapshot = None
        objects = self._objects.values()
        self._policies = PodPolicies(objects, self.settings)
        self._local = {(each.namespace, each.name): each for each in objects if isinstance(each, LocalQueue)}
        queues = {each.name: each for each in objects if isinstance(each, ClusterQueue)}
        for name in self._pending.keys() - queues.keys():
            del self._pending[name]
            self._busy.discard(name)
        for name, queue in queues.items():
            strategy = queue.spec.queueing_strategy
            if name not in self._pending:
                self._pending[name] = PendingQueue(name, strategy, self.settings, self._busy)
            self._pending[name].strategy = strategy

    def listed(self, kind: type[T]) -> list[T]:
        """Return the objects of a kind that are not workloads."""
        return [each for each in self._objects.values() if isinstance(each, kind)]

    def apply(self, obj: Object, arrival: int = 0) -> None:
        """Create an object, or put it in the place of the one with its name.

        Parameters
        ----------
        arrival : int, optional
            Which of the workloads of one second came first.
        """
        self._begin_anew()
        if isinstance(obj, Workload):
            known = self.workloads.get(obj.key)
            if known is not None:
                self.delete("Workload", obj.key)
            self._create(obj)
            self.workloads[obj.key].arrival = arrival
            return
        if isinstance(obj, (ClusterNode, Pod)):
            self.place({(obj.kind, obj.key): obj})
            return
        before = self._objects.get((obj.kind, obj.key))
        trees, closed = self._tree_of(before), self._closed(obj)
        self._objects[obj.kind, obj.key] = obj
        self._changed(before, obj, trees, closed)

    def place(self, objects: Mapping[tuple[str, str], Object | None]) -> None:
        """Follow nodes and pods, by kind and key, which topologies count; None for those that are gone."""
        changed = [*[self._objects.get(key) for key in objects], *objects.values()]
        kept = {key: obj for key, obj in objects.items() if obj is not None}
        self._objects = {key: obj for key, obj in self._objects.items() if key not in objects} | kept
        self._read()
        topologies = self.snapshot.topologies.values()
        if any(
            isinstance(node, ClusterNode) and each.covers(node) for node in changed for each in topologies
        ):
            self._begin_anew()
            self._retried |= dict.fromkeys(self.snapshot.queues.keys() - self._closed())

    def delete(self, kind: str, key: str) -> None:
        """Delete an object, if it is there."""
        self._begin_anew()
        if kind == "Workload":
            workload = self.workloads.pop(key, None)
            self._decided[key] = None
            if workload is not None:
                self.snapshot.forget(key)
                self._retry(workload)
                if (queue := self._queue_of(workload)) is not None:
                    queue.delete(key)
            return
        before = self._objects.get((kind, key))
        if isinstance(before, (ClusterNode, Pod)):
            self.place({(kind, key): None})
        elif before is not None:
            trees, closed = self._tree_of(before), self._closed(before)
            del self._objects[kind, key]
            self._changed(before, None, trees, closed)

    def _tree_of(self, obj: Object | None) -> list[Queue]:
        """Return the queues whose quotas follow from a queue or cohort."""
        node: Node | None = None
        if isinstance(obj, ClusterQueue):
            node = self.snapshot.queues.get(obj.name)
        elif isinstance(obj, Cohort):
            node = self.snapshot.cohorts.get(obj.name)
        return [] if node is None else self.snapshot.trees.get(node.root, [])  # a cohort may have no queue

    def _closed(self, obj: Object | None = None) -> set[str]:
        """Return the queues that admit nothing or, of a namespace, nothing from there."""
        namespace = obj.name if isinstance(obj, Namespace) else None
        return {
            name
            for name, queue in self.snapshot.queues.items()
            if queue.inactive or (namespace is not None and not self.matches(queue, namespace))
        }

    def _changed(
        self, before: Object | None, after: Object | None, trees: list[Queue], closed: set[str]
    ) -> None:
        """Follow a change of an object other than a workload."""
        self._read()
        its = self._tree_of(after)
        # Kueue compares the label keys of flavors before an update with those after it, not read yet.
        old = [queue for queue in trees if isinstance(after, ClusterQueue) and queue.name == after.name]
        looks_new = any(group.label_keys for queue in old for group in queue.groups)
        if looks_new or _quotas(before) != _quotas(after):
            for name in {queue.name for queue in (*trees, *its)}:
                if name in self.snapshot.queues:
                    self.snapshot.queues[name].generation += 1
        obj = after or before
        new_queue = after.name if isinstance(after, ClusterQueue) and before is None else None
        if isinstance(obj, (ClusterQueue, Cohort)):
            if not isinstance(before, type(obj)) or before.spec != obj.spec:
                self._retried |= dict.fromkeys(queue.name for queue in its)
        elif obj is not None:
            self._retried |= dict.fromkeys(closed - self._closed(obj))
        led = isinstance(obj, LocalQueue) and _leads_to(before) != _leads_to(after)
        for workload in self.workloads.values():
            if isinstance(obj, (LimitRange, RuntimeClass)) and workload.is_queued:
                specs = workload.specs
                workload.adjust(self._policies)
                workload.revision += workload.specs != specs
                self._enter(workload)
            local = self._local.get(workload.queue)
            is_found = local is not None and local.spec.cluster_queue == new_queue
            if is_found or (led and obj is not None and workload.queue == (obj.namespace, obj.name)):
                if led and not _leads_to(before):
                    self._queued.add(workload.key)
                for queue in self._pending.values():
                    queue.delete(workload.key)
                self._enter(workload)
            self._touched[workload.key] = None

    def _create(self, obj: Workload) -> None:
        snapshot = self.snapshot
        workload = self.workloads[obj.key] = QueuedWorkload(obj, self._policies)
        if workload.is_queued:
            self._enter(workload)
        elif workload.counts:
            snapshot.admit(workload)
        if workload.requeue_at is not None:
            self._held_back[obj.key] = None
        if workload.is_true(EVICTED) and workload.is_true(RESERVED):
            self._leaving[obj.key] = self._round + self._release_after
        self._touched[obj.key] = self._decided[obj.key] = None

    def matches(self, queue: Queue, namespace: str) -> bool:
        """Whether a queue is for a namespace."""
        known = queue.namespaces.get(namespace)
        if known is None:
            obj = self._objects.get(("Namespace", namespace))
            given = obj.metadata.labels if isinstance(obj, Namespace) else {}
            known = queue.selects({"kubernetes.io/metadata.name": namespace} | given)
            queue.namespaces[namespace] = known
        return known

    # ---- what happens to workloads

    def _begin_anew(self) -> None:
        """Forget what was decided again and again: something has changed outside of Kueue."""
        self.endless, self._preempting = {}, Counter()

    def finish(self, key: str) -> None:
        """Let a workload finish."""
        if (workload := self.workloads.get(key)) is not None and not workload.is_true(FINISHED):
            self._begin_anew()
            before = workload.status
            workload.set_condition(FINISHED, True, "JobFinished", "Job finished successfully", self.now)
            self._written(workload, before)

    def activate(self, key: str, active: bool) -> None:
        """Set ``spec.active`` of a workload."""
        if (workload := self.workloads.get(key)) is not None and workload.active != active:
            workload.active = active
            self._changed_outside(workload)

    def prioritize(self, key: str, priority: int) -> None:
        """Change the priority of a workload."""
        if (workload := self.workloads.get(key)) is not None and workload.priority != priority:
            workload.priority = priority
            self._changed_outside(workload, retries=workload.has_priority_class)

    def reclaim(self, key: str, counts: Mapping[str, int]) -> None:
        """Say how many pods of a workload need their quota no more, by pod set."""
        if (workload := self.workloads.get(key)) is not None and workload.reclaimable != counts:
            workload.reclaimable = dict(counts)
            self._changed_outside(workload, retries=workload.is_true(ADMITTED))

    def _changed_outside(self, workload: QueuedWorkload, retries: bool = False) -> None:
        """Follow what a user or a job has changed of a workload; see `_written`."""
        self._begin_anew()
        workload.revision += 1
        workload.changed()
        self._written(workload, workload.status, retries)

    def set_check(self, key: str, check: str, state: str, message: str = "") -> None:
        """Say what an admission check says of a workload that has it."""
        workload = self.workloads.get(key)
        if workload is not None and check in workload.checks:
            old = workload.checks[check]
            new = CheckState(state, message, self.now if state != old.state else old.at, old.retry_after)
            if new != old:
                self._begin_anew()
                workload.checks[check] = new
                self._written(workload, workload.status)

    def _queue_of(self, workload: QueuedWorkload) -> PendingQueue | None:
        """Return where a workload waits; None if its queue is missing or stopped."""
        return self._pending.get(_leads_to(self._local.get(workload.queue)))

    def cluster_queue_of(self, workload: QueuedWorkload) -> str:
        """Return the cluster queue to which the queue of a workload leads; "" without one."""
        local = self._local.get(workload.queue)
        return (
            local.spec.cluster_queue
            if local is not None and local.spec.cluster_queue in self._pending
            else ""
        )

    def _enter(self, workload: QueuedWorkload) -> None:
        queue = self._queue_of(workload)
        if queue is not None and workload.is_queued:
            self._queued.add(workload.key)
            queue.update(workload, self.now)

    def _retry(self, workload: QueuedWorkload) -> None:
        """Let those be tried again that may have waited for a workload. Kueue does not know the queue of one
        that held quota when it was created, nor where a stopped LocalQueue leads."""
        if workload.key in self._queued:
            self._retried[_leads_to(self._local.get(workload.queue))] = None

    def _written(self, workload: QueuedWorkload, before: str, retries: bool = False) -> None:
        """Follow a change of a workload.

        Parameters
        ----------
        before : str
            Its status before the change.
        retries : bool
            Whether others may fit since it, though it holds what it holds.
        """
        key, status = workload.key, workload.status
        self._touched[key] = self._decided[key] = None
        if status == "finished" or not workload.active:
            if (queue := self._queue_of(workload)) is not None:
                queue.delete(key)
            self._retry(workload)
            self.snapshot.forget(key)
        elif status == "pending" and before == "pending":
            self._enter(workload)
        elif status == "pending":
            self.snapshot.forget(key)
            if workload.requeue_at is None or workload.requeue_at <= self.now:
                self._enter(workload)
            self._retry(workload)
        else:
            if before == "pending" and (queue := self._queue_of(workload)) is not None:
                queue.delete(key)
            if retries:
                self._retry(workload)
            self.snapshot.admit(workload)

    # ---- conditions

    def _wait(self, workload: QueuedWorkload, reason: str, message: str) -> None:
        """Say why a workload has no quota, and take it if it has some."""
        before = workload.status
        changed = workload.set_condition(RESERVED, False, reason, message, self.now)
        if workload.holds is not None:
            workload.holds = None
            workload.changed()
            changed = True
        if self._sync_admitted(workload) or changed:
            self._written(workload, before)

    def _sync_admitted(self, workload: QueuedWorkload) -> bool:
        """Set whether a workload is admitted; return whether that changes."""
        reserved = workload.is_true(RESERVED)
        ready = all(check.state == READY for check in workload.checks.values())
        delayed = any(pods.is_delayed for pods in workload.holds or ())
        admitted = reserved and ready and not delayed
        if admitted == workload.is_true(ADMITTED):
            return False
        self._moved[workload.key] = None
        reason, message = "Admitted", "The workload is admitted"
        if not reserved:
            reason, message = "NoReservation", "The workload has no reservation"
        elif not admitted:
            reason, message = "UnsatisfiedChecks", "The workload has not all checks ready"
        return workload.set_condition(ADMITTED, admitted, reason, message, self.now)

    def _evict(self, workload: QueuedWorkload, reason: str, message: str, cause: str = "") -> None:
        """Evict a workload; it holds its quota until its pods are gone."""
        before = workload.status
        due = f"DueTo{cause}" if cause else ""
        workload.set_condition(EVICTED, True, f"{reason}{due}", message, self.now)
        for name, check in workload.checks.items():
            if check.state != PENDING:
                text = f"Reset to Pending after eviction. Previously: {check.state}"
                workload.checks[name] = CheckState(PENDING, text, self.now, check.retry_after)
        if workload.holds is not None:
            if reason != BY_PREEMPTION:
                self._evicted[workload.key] = f"EvictedDueTo{reason}{due}: {message}"
            self._leaving.setdefault(workload.key, self._round + self._release_after)
        self._written(workload, before)

    def _release(self, key: str) -> None:
        """Let an evicted workload leave, now that its pods are gone."""
        workload = self.workloads.get(key)
        if workload is not None and workload.is_true(EVICTED) and workload.is_true(RESERVED):
            _, reason, message, _ = workload.conditions[EVICTED]
            by_others = reason in (BY_PREEMPTION, "NodeFailures")
            workload.set_condition(REQUEUED, by_others, reason, message, self.now)
            self._wait(workload, PENDING, message)

    def settle(self) -> None:
        """Let the controllers follow what has happened; then evicted workloads leave whose time has come."""
        while self._touched:
            touched, self._touched = self._touched, {}
            for key in touched:
                if (workload := self.workloads.get(key)) is not None:
                    self._reconcile(workload)
        due = [key for key, leaves in self._leaving.items() if leaves <= self._round]
        for key in due:
            del self._leaving[key]
            self._release(key)
        names, self._retried = self._retried, {}  # in whose trees those that wait are tried again
        trees = {self.snapshot.queues[name].root: None for name in names if name in self.snapshot.queues}
        for root in trees:
            for queue in self.snapshot.trees[root]:
                pending = self._pending[queue.name]
                if pending.inadmissible:
                    namespaces = {each.obj.namespace for each in pending.inadmissible.values()}
                    matches = {each: self.matches(queue, each) for each in namespaces}
                    pending.retry(matches, self.now)

    def _reconcile(self, workload: QueuedWorkload) -> None:
        """Follow one change of a workload, as its controller does."""
        if workload.is_true(FINISHED) or self._set_requeue_time(workload):
            return
        if workload.active:
            if self._return(workload):
                return
        elif not workload.is_true(EVICTED):
            target = workload.conditions.pop(TARGET, None)
            message, cause = "The workload is deactivated", ""
            if target is not None:
                message, cause = f"{message} due to {target.message}", target.reason
            workload.requeue_at = None
            self._evict(workload, _DEACTIVATED, message, cause)
            return
        local = self._local.get(workload.queue)
        queue = None if local is None else self.snapshot.queues.get(local.spec.cluster_queue)
        if self._restart(workload, local, queue) or self._sync_checks(workload, queue):
            return
        if not workload.is_true(ADMITTED):
            before = workload.status
            if self._sync_admitted(workload):
                self._written(workload, before)
                return
        if workload.is_true(RESERVED):
            self._reconcile_reserved(workload, local, queue)
        elif text := self._no_queue(workload, local, queue):
            self._wait(workload, _INADMISSIBLE, text)

    def _no_queue(self, workload: QueuedWorkload, local: LocalQueue | None, queue: Queue | None) -> str:
        """Return why a workload is in no queue that could admit it; "" if it is in one."""
        if local is None:
            return f"LocalQueue {workload.queue[1]} doesn't exist"
        if local.spec.stop_policy != RUN:
            return f"LocalQueue {workload.queue[1]} is inactive"
        name = local.spec.cluster_queue
        if queue is None:
            return f"ClusterQueue {name} doesn't exist"
        return f"ClusterQueue {name} is inactive" if queue.inactive else ""

    def _set_requeue_time(self, workload: QueuedWorkload) -> bool:
        """Keep the time until which a check wants a workload to wait; return whether it is new."""
        times = [
            check.at + check.retry_after * _SECOND
            for check in workload.checks.values()
            if check.state == RETRY and check.retry_after is not None
        ]
        latest = max(times, default=0)
        if latest <= self.now or (workload.requeue_at is not None and workload.requeue_at >= latest):
            return False
        workload.requeue_at = latest
        self._held_back[workload.key] = None
        self._written(workload, workload.status)
        return True

    def _return(self, workload: QueuedWorkload) -> bool:
        """Let a workload come back if it may; return whether that is all for now."""
        if workload.is_true(TARGET):
            workload.active = False
            workload.revision += 1
            self._written(workload, workload.status)
            return True
        if workload.requeue_at is not None:
            if workload.requeue_at > self.now:
                return True
            if workload.status == "pending":
                workload.requeue_at = None
                self._enter(workload)
        return self._requeue_if(workload, {_DEACTIVATED, BY_TIMEOUT, BY_CHECK})

    def _restart(self, workload: QueuedWorkload, local: LocalQueue | None, queue: Queue | None) -> bool:
        """Let a workload come back whose queue was stopped and runs again; return whether it does."""
        if local is None or local.spec.stop_policy != RUN:
            return False
        runs = queue is not None and queue.spec.stop_policy == RUN
        return self._requeue_if(workload, {_LOCAL_STOPPED, _QUEUE_STOPPED} if runs else {_LOCAL_STOPPED})

    def _requeue_if(self, workload: QueuedWorkload, reasons: Container[str]) -> bool:
        """Let a workload come back that waits for one of some reasons; return whether it does."""
        requeued = workload.conditions.get(REQUEUED)
        if requeued is None or requeued.is_true or requeued.reason not in reasons:
            return False
        workload.set_condition(REQUEUED, True, *_RETURNS[requeued.reason], self.now)
        self._written(workload, workload.status)
        return True

    def _sync_checks(self, workload: QueuedWorkload, queue: Queue | None) -> bool:
        """Give a workload the checks of its queue; return whether they change."""
        if queue is None:
            return False
        wanted = _checks_of(workload, queue)
        if wanted == workload.checks.keys():
            return False
        kept = {name: check for name, check in workload.checks.items() if name in wanted}
        added = {name: CheckState(PENDING, "", self.now) for name in wanted - kept.keys()}
        workload.checks = dict(sorted((kept | added).items()))
        self._written(workload, workload.status)
        return True

    def _reconcile_reserved(
        self, workload: QueuedWorkload, local: LocalQueue | None, queue: Queue | None
    ) -> None:
        """Evict a workload whose checks failed or whose queue is stopped."""
        is_evicted = workload.is_true(EVICTED)
        if not is_evicted and workload.has_check(REJECTED):
            names = [name for name, check in workload.checks.items() if check.state == REJECTED]
            text = f"Admission check(s): {','.join(names)}, were rejected"
            if workload.set_condition(TARGET, True, BY_CHECK, text, self.now):
                self._written(workload, workload.status)
            return
        if not is_evicted and workload.has_check(RETRY):
            self._evict(workload, BY_CHECK, "At least one admission check is false")
            return
        for kind, reason, name, policy in (
            (
                "LocalQueue",
                _LOCAL_STOPPED,
                workload.queue[1],
                None if local is None else local.spec.stop_policy,
            ),
            (
                "ClusterQueue",
                _QUEUE_STOPPED,
                "" if local is None else local.spec.cluster_queue,
                None if queue is None else queue.spec.stop_policy,
            ),
        ):
            if workload.is_true(ADMITTED):
                if policy == DRAIN and not is_evicted:
                    self._evict(workload, reason, f"The {kind} is stopped")
                    return
            elif policy != RUN:
                what = "is terminating or missing" if policy is None else "is stopped"
                self._wait(workload, _INADMISSIBLE, f"{kind} {name} {what}")
                return

    # ---- cycles

    def advance(self, milliseconds: int) -> None:
        """Let time pass; those whose time to wait is over are tried again."""
        self.now += milliseconds
        held_back = [self.workloads.get(key) for key in self._held_back]
        self._held_back = {
            each.key: None for each in held_back if each is not None and each.requeue_at is not None
        }
        if self._held_back:
            self._begin_anew()
            self._touched |= self._held_back
        self.settle()

    def cycle(self) -> Cycle:
        """Run one scheduling cycle, and let the controllers follow it."""
        self.settle()
        active = [name for name in sorted(self._busy) if not self.snapshot.queues[name].inactive]
        heads = [(head, name) for name in active if (head := self._pending[name].pop()) is not None]
        scheduling = SchedulingCycle(self.snapshot, self.settings, self._policies, self.matches)
        decided, refused = scheduling.run(heads)
        admitted, preempted = [], []
        for entry in decided:
            if entry.admitted is not None:
                admitted.append(self._admit(entry))
            preempted += self._preempt(entry)
        waiting: dict[str, str] = {}
        for entry in [*decided, *refused]:
            if entry.admitted is None:
                workload = entry.workload
                waiting[workload.key] = entry.message
                if (queue := self._queue_of(workload)) is not None:
                    queue.give_back(workload, entry.reason, self.now)
                needs = [(each.name, each.requests) for each in workload.needs()]
                is_new = workload.set_condition(RESERVED, False, PENDING, entry.message, self.now)
                if is_new or workload.written != needs:
                    workload.written = needs
                    workload.last = None  # the update of its status replaces what waits
                    self._decided[workload.key] = None
        while self._touched:
            self.settle()
        self._round += 1
        evicted, self._evicted = self._evicted, {}
        return Cycle(
            tuple([entry.workload.key for entry in decided]),
            tuple(admitted),
            tuple(sorted(preempted, key=lambda each: each.workload)),
            waiting,
            evicted,
        )

    def run(self) -> list[Cycle]:
        """Run cycles until nothing is left to try, one changes nothing, or workloads preempt one another in
        the same way again and again, which goes on without end.

        Raises
        ------
        InputError
            There is no end, and no repetition.
        """
        self.settle()
        cycles: list[Cycle] = []
        while not self.endless and any(not self.snapshot.queues[name].inactive for name in self._busy):
            cycle = self.cycle()
            is_idle = not (cycle.admitted or cycle.preempted or cycle.evicted)
            if is_idle and cycles and cycles[-1] == cycle:
                break
            cycles.append(cycle)
            if cycle.preempted:
                decided = cycle.attempts, tuple([each.workload for each in cycle.admitted]), cycle.preempted
                self._preempting[decided] += 1
                if self._preempting[decided] > _REPEATED:
                    pairs = grouped((each.by, each.workload) for each in cycle.preempted)
                    self.endless = {by: tuple(victims) for by, victims in pairs.items()}
            if len(cycles) == _MOST_CYCLES:
                raise InputError(f"the workloads preempt one another without end: {_MOST_CYCLES} cycles")
        return cycles

    def _admit(self, entry: Entry) -> AdmittedWorkload:
        """Give a workload what it got."""
        workload, queue = entry.workload, entry.queue
        assert queue is not None
        assert entry.admitted is not None
        workload.holds, workload.cluster_queue = tuple(entry.admitted), queue.name
        workload.written = None
        workload.changed()
        message = f"Quota reserved in ClusterQueue {queue.name}"
        workload.set_condition(RESERVED, True, RESERVED, message, self.now)
        for kind in (EVICTED, PREEMPTED):
            if workload.is_true(kind):
                text = f"Previously: {workload.conditions[kind].message}"
                workload.set_condition(kind, False, RESERVED, text, self.now)
        if _checks_of(workload, queue) <= workload.checks.keys():
            self._sync_admitted(workload)
        self.snapshot.admit(workload)
        queue.generation += 1  # the cache hears of it a second time, by the update
        self._decided[workload.key] = None
        self._pending[queue.name].delete(workload.key)
        if queue.checks or workload.checks:
            self._touched[workload.key] = None
        is_reserved_only = not workload.is_true(ADMITTED)
        considered = entry.assignment.considered()
        return AdmittedWorkload(workload.key, queue.name, workload.holds, is_reserved_only, considered)

    def _preempt(self, entry: Entry) -> list[PreemptedWorkload]:
        """Evict whom a workload preempts."""
        preempted = []
        for target in entry.preempted:
            assert entry.queue is not None
            workload = target.workload
            queue = self.snapshot.queues[workload.cluster_queue]
            message = target.message(entry.workload, entry.queue, queue)
            workload.set_condition(PREEMPTED, True, target.reason, message, self.now)
            self._evict(workload, BY_PREEMPTION, message)
            preempted.append(PreemptedWorkload(workload.key, entry.workload.key, target.reason, message))
        return preempted

    # ---- what there is

    def is_leaving(self) -> bool:
        """Whether evicted workloads still hold quota."""
        return bool(self._leaving)

    def waiting(self, queue: str) -> tuple[list[str], list[str]]:
        """Return the workloads that wait in a cluster queue: those that are tried, in their order, and those
        that wait for something to happen, by name."""
        pending = self._pending[queue]
        return [each.key for each in pending.in_order()], sorted(pending.inadmissible)


def _checks_of(workload: QueuedWorkload, queue: Queue) -> set[str]:
    """Return the checks that a workload needs: of those for some flavors only once it has flavors."""
    everywhere = frozenset(queue.flavors)
    if all(flavors == everywhere for flavors in queue.checks.values()):
        return set(queue.checks)
    own = {flavor for pods in workload.holds or () for flavor in pods.flavors.values()}
    return {name for name, flavors in queue.checks.items() if not flavors.isdisjoint(own)}


def _leads_to(obj: Object | None) -> str:
    """Return where a LocalQueue brings workloads; "" while it is stopped."""
    return obj.spec.cluster_queue if isinstance(obj, LocalQueue) and obj.spec.stop_policy == RUN else ""


def _quotas(obj: Object | None) -> object:
    """Return what the quotas of a tree follow from."""
    if isinstance(obj, ClusterQueue):
        return obj.spec.resource_groups, obj.spec.cohort_name
    return obj if isinstance(obj, Cohort) else None
