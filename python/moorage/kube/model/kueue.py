"""The kinds of Kueue (kueue.x-k8s.io/v1beta2), as far as its scheduler reads them; `kueue_versions` converts
v1beta1."""

from .meta import Condition, Int32, LabelSelector, Object, QuantityLike, Resources, Struct
from .node import Taint
from .pod import Toleration
from .workload import KUEUE, PodTemplateSpec

_V1BETA2 = f"{KUEUE}/v1beta2"

NEVER, LOWER, NEWER, ANY = "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"
NEXT, STOP = "TryNextFlavor", "MayStopSearch"
STRICT, BEST_EFFORT = "StrictFIFO", "BestEffortFIFO"
HOLD, DRAIN, RUN = "Hold", "HoldAndDrain", "None"


# ---- quotas ------------------------------------------------------------------------------------------------


class QueueResourceQuota(Struct, frozen=True):
    """The quota of a resource in a flavor."""

    name: str = ""
    nominal_quota: QuantityLike = 0
    borrowing_limit: QuantityLike | None = None
    lending_limit: QuantityLike | None = None


class FlavorQuotas(Struct, frozen=True):
    """The quotas of a flavor."""

    name: str = ""
    resources: tuple[QueueResourceQuota, ...] = ()


class ResourceGroup(Struct, frozen=True):
    """Resources that get their flavors together, and these flavors in the order in which they are tried."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FairSharing(Struct, frozen=True):
    """The weight of a queue or cohort."""

    weight: QuantityLike | None = None


class CohortSpec(Struct, frozen=True):
    """Spec of a cohort."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing = FairSharing()


class Cohort(Object, frozen=True):
    """Queues and cohorts that borrow from each other."""

    kind: str = "Cohort"
    api_version: str = _V1BETA2
    spec: CohortSpec = CohortSpec()


class FlavorFungibility(Struct, frozen=True):
    """Whether another flavor is tried before borrowing or preemption."""

    when_can_borrow: str = STOP
    when_can_preempt: str = NEXT
    preference: str | None = None


class BorrowWithinCohort(Struct, frozen=True):
    """Whether a workload may preempt others while its queue borrows."""

    policy: str = NEVER
    max_priority_threshold: Int32 | None = None


class Preemption(Struct, frozen=True):
    """Which workloads may be preempted."""

    reclaim_within_cohort: str = NEVER
    within_cluster_queue: str = NEVER
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()


class AdmissionCheckRule(Struct, frozen=True):
    """A check of a queue, and the flavors for which it is asked; all where none are named."""

    name: str = ""
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Struct, frozen=True):
    """The checks of a queue."""

    admission_checks: tuple[AdmissionCheckRule, ...] = ()


class ClusterQueueSpec(Struct, frozen=True):
    """Spec of a cluster queue."""

    cohort_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    queueing_strategy: str = BEST_EFFORT
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks_strategy: AdmissionChecksStrategy = AdmissionChecksStrategy()
    stop_policy: str = RUN
    fair_sharing: FairSharing = FairSharing()


class ClusterQueue(Object, frozen=True):
    """A queue with quotas."""

    kind: str = "ClusterQueue"
    api_version: str = _V1BETA2
    spec: ClusterQueueSpec = ClusterQueueSpec()


class LocalQueueSpec(Struct, frozen=True):
    """Spec of a local queue."""

    cluster_queue: str = ""
    stop_policy: str = RUN


class LocalQueue(Object, frozen=True):
    """The queue of a namespace that leads to a cluster queue."""

    kind: str = "LocalQueue"
    api_version: str = _V1BETA2
    spec: LocalQueueSpec = LocalQueueSpec()


class ResourceFlavorSpec(Struct, frozen=True):
    """Spec of a resource flavor."""

    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class ResourceFlavor(Object, frozen=True):
    """A sort of nodes."""

    kind: str = "ResourceFlavor"
    api_version: str = _V1BETA2
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Struct, frozen=True):
    """A level of a topology."""

    node_label: str = ""


class TopologySpec(Struct, frozen=True):
    """Spec of a topology: its levels from the top."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(Object, frozen=True):
    """How nodes stand in blocks and racks."""

    kind: str = "Topology"
    api_version: str = _V1BETA2
    spec: TopologySpec = TopologySpec()


class AdmissionCheckSpec(Struct, frozen=True):
    """Spec of an admission check."""

    controller_name: str = ""


class AdmissionCheckStatus(Struct, frozen=True):
    """Status of an admission check."""

    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(Object, frozen=True):
    """What else has to agree to an admission."""

    kind: str = "AdmissionCheck"
    api_version: str = _V1BETA2
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()

    @property
    def is_active(self) -> bool:
        """Whether its controller has said that it works."""
        return any(each.type == "Active" and each.status == "True" for each in self.status.conditions)


class WorkloadPriorityClass(Object, frozen=True):
    """A priority of workloads."""

    kind: str = "WorkloadPriorityClass"
    api_version: str = _V1BETA2
    value: Int32 = 0


# ---- workloads ---------------------------------------------------------------------------------------------


class TopologyRequest(Struct, frozen=True):
    """In which domains the pods of a set are to stand together."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: Int32 | None = None

    @property
    def is_explicit(self) -> bool:
        """Whether it asks for a topology, which a group alone does not."""
        own = (self.unconstrained, self.required, self.preferred)
        return any(each is not None for each in (*own, self.slice_level, self.pod_set_slice_size))

    @property
    def slice_level(self) -> str | None:
        """The level of which one domain has to hold a slice."""
        return self.pod_set_slice_required_topology

    @property
    def is_slices_only(self) -> bool:
        """Whether it asks for nothing but slices."""
        return self.required is None and self.preferred is None and self.slice_level is not None


class PodSet(Struct, frozen=True):
    """Equal pods of a workload."""

    name: str = "main"
    count: Int32 = 1
    min_count: Int32 | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    topology_request: TopologyRequest | None = None


class PriorityClassRef(Struct, frozen=True):
    """The class that a workload has its priority from."""

    group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Struct, frozen=True):
    """Spec of a workload."""

    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority: Int32 = 0
    priority_class_ref: PriorityClassRef | None = None
    active: bool = True


class IndividualValues(Struct, frozen=True):
    """Texts that differ in their middle."""

    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class LevelValues(Struct, frozen=True):
    """The values of a level in some domains."""

    universal: str | None = None
    individual: IndividualValues | None = None


class PodCounts(Struct, frozen=True):
    """The numbers of pods in some domains."""

    universal: Int32 | None = None
    individual: tuple[Int32, ...] = ()


class TopologySlice(Struct, frozen=True):
    """Some domains, written short."""

    domain_count: Int32 = 0
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()


class TopologyDomain(Struct, frozen=True):
    """A domain and its number of pods."""

    values: tuple[str, ...] = ()
    count: Int32 = 0


class TopologyAssignment(Struct, frozen=True):
    """The domains that have the pods of a set: in slices, or of v1beta1 one by one."""

    levels: tuple[str, ...] = ()
    slices: tuple[TopologySlice, ...] = ()
    domains: tuple[TopologyDomain, ...] = ()

    def all_domains(self) -> list[TopologyDomain]:
        """Return its domains one by one."""
        domains = list(self.domains)
        for part in self.slices:
            for at in range(part.domain_count):
                counts = part.pod_counts
                domains.append(
                    TopologyDomain(
                        values=tuple([_value(level, at) for level in part.values_per_level]),
                        count=counts.individual[at] if counts.universal is None else counts.universal,
                    )
                )
        return domains


def _value(level: LevelValues, at: int) -> str:
    own = level.individual
    return f"{own.prefix}{own.roots[at]}{own.suffix}" if own is not None else level.universal or ""


class PodSetAssignment(Struct, frozen=True):
    """What a set of pods has got."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: Resources = {}
    count: Int32 | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str | None = None


class Admission(Struct, frozen=True):
    """The quota that a workload holds."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Struct, frozen=True):
    """When an evicted workload may come back."""

    requeue_at: str | None = None


class PodSetUpdate(Struct, frozen=True):
    """What an admission check adds to the pods of a set."""

    name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class AdmissionCheckState(Struct, frozen=True):
    """What an admission check says of a workload."""

    name: str = ""
    state: str = "Pending"
    message: str = ""
    last_transition_time: str | None = None
    requeue_after_seconds: Int32 | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class ReclaimablePod(Struct, frozen=True):
    """Pods of a set that need their quota no more."""

    name: str = ""
    count: Int32 = 0


class QueuedWorkloadStatus(Struct, frozen=True):
    """Status of a workload."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()


class Workload(Object, frozen=True):
    """Pods that are admitted together."""

    kind: str = "Workload"
    api_version: str = _V1BETA2
    spec: WorkloadSpec = WorkloadSpec()
    status: QueuedWorkloadStatus = QueuedWorkloadStatus()


KINDS: tuple[type[Object], ...] = (
    *(ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology),
    *(AdmissionCheck, WorkloadPriorityClass, Workload),
)
"""The kinds of this module that files are decoded to."""
