"""Workloads as the scheduler of Kueue keeps them (v0.17, pkg/workload): what they ask for and hold, and
their conditions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import lru_cache

from moorage.kube.model.kueue import PodSet, TopologyAssignment, Workload
from moorage.kube.model.meta import Condition as ApiCondition
from moorage.kube.model.workload import KUEUE
from moorage.lazy import NamedTuple

from .pod_policies import PodPolicies
from .settings import Settings
from .topology_snapshot import DomainUsage, PlacedPods
from .whole_amounts import Amounts, FlavorResource, amounts, per_pod

RESERVED, ADMITTED, FINISHED = "QuotaReserved", "Admitted", "Finished"
EVICTED, PREEMPTED, REQUEUED, TARGET = "Evicted", "Preempted", "Requeued", "DeactivationTarget"
PENDING, RETRY, READY, REJECTED = "Pending", "Retry", "Ready", "Rejected"
BY_PREEMPTION, BY_CHECK, BY_TIMEOUT = "Preempted", "AdmissionCheck", "PodsReadyTimeout"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
JOB_UID = f"{KUEUE}/job-uid"


@lru_cache(maxsize=1 << 12)
def milliseconds(time: str) -> int:
    """Return a time of an object in milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


class WorkloadCondition(NamedTuple):
    """A condition of a workload; `at` is in milliseconds."""

    is_true: bool
    reason: str
    message: str
    at: int


class CheckState(NamedTuple):
    """What an admission check says."""

    state: str
    message: str
    at: int = 0
    retry_after: int | None = None


class AdmittedPods(NamedTuple):
    """What a set of pods has got.

    Attributes
    ----------
    flavors : dict of str to str
        By resource.
    requests : dict of str to int
        What all of its pods use, of each resource.
    domains : tuple of PlacedPods, or None
        Where they stand in the topology of their flavor; None without one.
    is_delayed : bool
        The domains come when the admission checks are ready.
    """

    name: str
    pods: int
    flavors: Mapping[str, str]
    requests: Amounts
    domains: tuple[PlacedPods, ...] | None = None
    is_delayed: bool = False


class Needs(NamedTuple):
    """What a set of pods asks for."""

    name: str
    pods: int
    requests: Amounts

    def scaled(self, pods: int) -> Needs:
        """Return what another number of its pods asks for."""
        if not self.pods or pods == self.pods:
            return self
        requests = {key: value // self.pods * pods for key, value in self.requests.items()}
        return Needs(self.name, pods, requests)


class Usage(NamedTuple):
    """What a workload uses: quota, and domains of flavors with a topology."""

    quota: dict[FlavorResource, int]
    domains: dict[str, list[DomainUsage]]


class LastTried(NamedTuple):
    """Where the search for flavors goes on: by set of pods and resource the last flavor tried, or -1 if that
    was the last of all.

    Attributes
    ----------
    generation : int
        That of the queue; of an older one it does not count.
    """

    generation: int
    flavors: tuple[Mapping[str, int], ...]


class QueuedWorkload:
    """A workload with what changes of it.

    Attributes
    ----------
    specs : list of PodSpec
        Those of its sets of pods, with the requests that they would be created with.
    holds : tuple of AdmittedPods, or None
        What it holds of `cluster_queue`; None without a reservation of quota.
    last : LastTried, optional
        Where its next attempt goes on, if flavors are left to try.
    written : list of (str, dict of str to int), optional
        What its status says that its sets of pods ask for.
    arrival : int
        Which of those of one second came first.
    revision : int
        Grows with each change for which it is tried again although nothing else has changed.
    is_plain : bool
        Its pods ask for no labels and no topology.
    refusal : str, optional
        Why it is admitted by no queue, once that was looked at; "" if nothing forbids it.
    """

    _usage: Usage | None
    _needs: list[Needs] | None
    _held: frozenset[FlavorResource] | None
    _shape: Hashable
    _rank: tuple[bool, int, int, str] | None

    def __init__(self, obj: Workload, policies: PodPolicies) -> None:
        self.obj = obj
        self.key = obj.key
        self.uid = obj.metadata.uid
        self.created = milliseconds(obj.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
        self.priority = obj.spec.priority
        self.active = obj.spec.active
        self.queue = (obj.namespace, obj.spec.queue_name)
        self.pod_sets: Sequence[PodSet] = obj.spec.pod_sets
        self.adjust(policies)
        status = obj.status
        self.conditions = {each.type: _condition(each) for each in status.conditions}
        self.checks = {
            each.name: CheckState(
                each.state,
                each.message,
                milliseconds(each.last_transition_time) if each.last_transition_time else 0,
                each.requeue_after_seconds,
            )
            for each in status.admission_checks
        }
        self.reclaimable = {each.name: each.count for each in status.reclaimable_pods}
        requeue = status.requeue_state.requeue_at if status.requeue_state is not None else None
        self.requeue_at = milliseconds(requeue) if requeue else None
        self.cluster_queue = ""
        self.holds: tuple[AdmittedPods, ...] | None = None
        if status.admission is not None:
            self.cluster_queue = status.admission.cluster_queue
            self.holds = tuple(
                [
                    AdmittedPods(
                        each.name,
                        self._count_of(each.name) if each.count is None else each.count,
                        each.flavors,
                        amounts(each.resource_usage),
                        _domains(each.topology_assignment),
                        each.delayed_topology_request == PENDING,
                    )
                    for each in status.admission.pod_set_assignments
                ]
            )
        self.last: LastTried | None = None
        self.written: list[tuple[str, Amounts]] | None = None
        self.revision = self.arrival = 0
        self.is_plain = not any(
            spec.node_selector or spec.affinity is not None or each.topology_request is not None
            for spec, each in zip(self.specs, self.pod_sets, strict=True)
        )

    def __repr__(self) -> str:
        return f"<Workload {self.key} {self.status}>"

    def copy(self) -> QueuedWorkload:
        """Return one that changes by itself."""
        new = copy(self)
        new.conditions, new.checks = dict(self.conditions), dict(self.checks)
        return new

    def adjust(self, policies: PodPolicies) -> None:
        """Take over what namespaces and runtime classes set in its pods."""
        namespace = self.obj.namespace
        self.specs = [policies.adjusted(each.template.spec, namespace) for each in self.pod_sets]
        self.per_pod = [policies.counted(spec) for spec in self.specs]
        self.refusal: str | None = None
        self.changed()

    # ---- conditions

    def is_true(self, condition: str) -> bool:
        """Whether a condition is true."""
        known = self.conditions.get(condition)
        return known is not None and known.is_true

    def set_condition(self, kind: str, is_true: bool, reason: str, message: str, now: int) -> bool:
        """Set a condition; its time stays if its status does. Return whether anything changes."""
        old = self.conditions.get(kind)
        at = old.at if old is not None and old.is_true == is_true else now
        new = WorkloadCondition(is_true, reason, message, at)
        if new == old:
            return False
        self.conditions[kind] = new
        if kind in (EVICTED, REQUEUED):
            self.revision += 1
        self._rank = None
        return True

    @property
    def status(self) -> str:
        """``pending``, ``quotaReserved``, ``admitted`` or ``finished``."""
        if self.is_true(FINISHED):
            return "finished"
        if self.is_true(ADMITTED):
            return "admitted"
        return "quotaReserved" if self.is_true(RESERVED) else "pending"

    @property
    def counts(self) -> bool:
        """Whether it uses quota: it holds some, and is neither finished nor deactivated."""
        reserved = self.holds is not None and self.is_true(RESERVED)
        return reserved and self.active and not self.is_true(FINISHED)

    @property
    def is_queued(self) -> bool:
        """Whether it belongs into a queue."""
        return self.active and not self.is_true(FINISHED) and not self.is_true(RESERVED)

    def has_check(self, state: str) -> bool:
        """Whether a check is in a state."""
        return any(check.state == state for check in self.checks.values())

    @property
    def has_priority_class(self) -> bool:
        """Whether its priority is that of a WorkloadPriorityClass."""
        ref = self.obj.spec.priority_class_ref
        return ref is not None and (ref.group, ref.kind) == (KUEUE, "WorkloadPriorityClass")

    def queue_time(self, settings: Settings) -> int:
        """Return the time by which it stands in its queue."""
        evicted = self.conditions.get(EVICTED)
        if evicted is not None and evicted.is_true:
            by_timeout = evicted.reason == BY_TIMEOUT and settings.requeuing_timestamp == "Eviction"
            if by_timeout or evicted.reason == BY_CHECK:
                return evicted.at
        if not settings.gate("PrioritySortingWithinCohort"):
            preempted = self.conditions.get(PREEMPTED)
            if preempted is not None and preempted.is_true and preempted.reason == WHILE_BORROWING:
                return preempted.at + 1
        return self.created

    def rank(self) -> tuple[bool, int, int, str]:
        """Return what is smaller for who is preempted first of those that hold quota and that the preemptor
        treats alike: who is evicted already comes before all others."""
        if self._rank is None:
            reserved = self.conditions[RESERVED].at
            self._rank = not self.is_true(EVICTED), self.priority, -reserved, self.uid
        return self._rank

    # ---- amounts

    def _count_of(self, name: str) -> int:
        return next((each.count for each in self.pod_sets if each.name == name), 0)

    def needs(self) -> list[Needs]:
        """Return what its sets of pods ask for."""
        if self._needs is None:
            counts = [each.count - self.reclaimable.get(each.name, 0) for each in self.pod_sets]
            self._needs = [
                Needs(pod_set.name, count, {key: value * count for key, value in request.items()})
                for pod_set, count, request in zip(self.pod_sets, counts, self.per_pod, strict=True)
            ]
        return self._needs

    def shape(self) -> Hashable:
        """Return what workloads without labels and topology have in common that get the same of a queue."""
        if self._shape is None:
            least = [(each.count, each.min_count) for each in self.pod_sets]
            needs = [(each.name, each.pods, *sorted(each.requests.items())) for each in self.needs()]
            self._shape = tuple(needs), tuple(least)
        return self._shape

    def held(self) -> list[AdmittedPods]:
        """Return what it holds, less the pods that need no quota any more."""
        held = []
        for pods in self.holds or ():
            left = self._count_of(pods.name) - self.reclaimable.get(pods.name, 0)
            if left < pods.pods:
                requests = {key: value // pods.pods * left for key, value in pods.requests.items()}
                pods = pods._replace(pods=left, requests=requests)
            held.append(pods)
        return held

    def usage(self) -> Usage:
        """Return what it uses by what it holds."""
        if self._usage is None:
            quota: dict[FlavorResource, int] = {}
            domains: dict[str, list[DomainUsage]] = {}
            for before, pods in zip(self.holds or (), self.held(), strict=True):
                for resource, value in pods.requests.items():
                    key = pods.flavors.get(resource, ""), resource
                    quota[key] = quota.get(key, 0) + value
                if pods.domains is not None:
                    request = per_pod(before.requests, before.pods)
                    placed = [DomainUsage(each.values, request, each.pods) for each in pods.domains]
                    for flavor in sorted({*pods.flavors.values()}):
                        domains.setdefault(flavor, []).extend(placed)
            self._usage = Usage(quota, domains)
        return self._usage

    def uses(self, resources: Iterable[FlavorResource]) -> bool:
        """Whether it has one of some resources of flavors."""
        if self._held is None:
            held = [pods.flavors.items() for pods in self.holds or ()]
            self._held = frozenset([(flavor, resource) for each in held for resource, flavor in each])
        return not self._held.isdisjoint(resources)

    def changed(self) -> None:
        """Forget what was counted: what it holds has changed, its priority, or what its pods need."""
        self._usage = self._needs = self._held = self._shape = self._rank = None

    def can_shrink(self) -> bool:
        """Whether it may be admitted with fewer pods."""
        return any(each.min_count is not None and each.count > each.min_count for each in self.pod_sets)


def _condition(given: ApiCondition) -> WorkloadCondition:
    at = milliseconds(given.last_transition_time) if given.last_transition_time else 0
    return WorkloadCondition(given.status == "True", given.reason, given.message, at)


def _domains(assignment: TopologyAssignment | None) -> tuple[PlacedPods, ...] | None:
    if assignment is None:
        return None
    return tuple([PlacedPods(each.values, each.count) for each in assignment.all_domains()])
