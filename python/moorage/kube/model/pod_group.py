"""PodGroup: pods that are scheduled together; CompositePodGroup: groups that are (KEP-6012)."""

from moorage._core.base.fields import GROUP_ANNOTATION as GROUP_ANNOTATION
from moorage._core.base.fields import group_of as group_of

from .meta import Condition, Int32, Int64, Object, Struct
from .pod import PodResourceClaim, PodResourceClaimStatus

GODEL = "scheduling.godel.kubewharf.io"
"""The API group of Gödel's PodGroup."""

COMPOSITE = "CompositePodGroup"

UnitKey = tuple[str, str]
"""Namespace and name of a group; ``CompositePodGroup/`` precedes the name of a composite one."""


class GangSchedulingPolicy(Struct, frozen=True):
    """Schedules at least `min_count` pods of a group, or none."""

    min_count: Int32 = 0


class BasicSchedulingPolicy(Struct, frozen=True):
    """Schedules the pods of a group without a minimum."""


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """The scheduling policy: exactly one of `gang` and `basic`."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class GangGroupSchedulingPolicy(Struct, frozen=True):
    """Schedules at least `min_group_count` groups of a composite group, or none."""

    min_group_count: Int32 = 0


class CompositePodGroupSchedulingPolicy(Struct, frozen=True):
    """The scheduling policy of a composite group: exactly one of `gang` and `basic`."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangGroupSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """A node label that must have one value on all nodes of a group."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    """Constraints on the nodes of a group."""

    topology: tuple[TopologyConstraint, ...] = ()


class SingleDisruptionMode(Struct, frozen=True):
    """Members are evicted individually."""


class AllDisruptionMode(Struct, frozen=True):
    """Members are evicted only together."""


class DisruptionMode(Struct, frozen=True):
    """The disruption mode: exactly one of `single` and `all`."""

    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class WorkloadReference(Struct, frozen=True):
    """A reference to a template of a workload object."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Struct, frozen=True):
    """Spec of a pod group.

    `min_member` and `schedule_timeout_seconds` are fields of Gödel's kind, all others of Kubernetes'.
    `resource_claims` counts with the gate DRAWorkloadResourceClaims: a pod of the group that has an equal
    entry shares the claim with the group.
    """

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    min_member: Int32 | None = None
    schedule_timeout_seconds: Int32 | None = None


class GroupCondition(Condition, frozen=True):
    """A condition of a pod group, with the generation of the group that it is about."""

    observed_generation: Int64 | None = None


class PodGroupStatus(Struct, frozen=True):
    """Status of a pod group; `phase` is a field of Gödel's kind."""

    conditions: tuple[GroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    phase: str = ""


class PodGroup(Object, frozen=True):
    """A pod group of ``scheduling.k8s.io`` (v1alpha3, v1beta1) or of Gödel (v1alpha1)."""

    kind: str = "PodGroup"
    api_version: str = "scheduling.k8s.io/v1beta1"
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def unit(self) -> UnitKey:
        """The key of the group."""
        meta = self.metadata
        return meta.namespace, meta.name

    @property
    def parent(self) -> UnitKey | None:
        """The key of the composite group that the group belongs to; None for none."""
        return composite_key(self.namespace, self.spec.parent_composite_pod_group_name)

    @property
    def is_godel(self) -> bool:
        """Whether the group is of Gödel's kind."""
        return self.api_version.startswith(GODEL)

    @property
    def min_count(self) -> int:
        """Number of members that must have a node before one is bound; 0 without a minimum."""
        policy = self.spec.scheduling_policy
        if policy is not None:
            return policy.gang.min_count if policy.gang is not None else 0
        return self.spec.min_member or 0

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """Labels that must have one value on all nodes of the group's pods."""
        return _topology_keys(self.spec.scheduling_constraints)


class CompositePodGroupSpec(Struct, frozen=True):
    """Spec of a composite pod group."""

    scheduling_policy: CompositePodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None


class CompositePodGroupStatus(Struct, frozen=True):
    """Status of a composite pod group."""

    conditions: tuple[GroupCondition, ...] = ()


class CompositePodGroup(Object, frozen=True):
    """A group of pod groups, or of composite groups, of ``scheduling.k8s.io`` (v1alpha3, v1beta1).

    Its groups name it in ``spec.parentCompositePodGroupName``. Kubernetes has the kind since v1.37.
    """

    kind: str = COMPOSITE
    api_version: str = "scheduling.k8s.io/v1alpha3"
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()

    @property
    def unit(self) -> UnitKey:
        """The key of the group."""
        meta = self.metadata
        return meta.namespace, f"{COMPOSITE}/{meta.name}"

    @property
    def parent(self) -> UnitKey | None:
        """The key of the composite group that the group belongs to; None for none."""
        return composite_key(self.namespace, self.spec.parent_composite_pod_group_name)

    @property
    def min_count(self) -> int:
        """Number of groups that must be schedulable before one of their pods is bound."""
        policy = self.spec.scheduling_policy
        return policy.gang.min_group_count if policy is not None and policy.gang is not None else 1

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """Labels that must have one value on all nodes of the pods of all groups."""
        return _topology_keys(self.spec.scheduling_constraints)


AnyGroup = PodGroup | CompositePodGroup
KINDS = (PodGroup, CompositePodGroup)
"""The kinds of this module that files are decoded to."""


def _topology_keys(constraints: PodGroupSchedulingConstraints | None) -> tuple[str, ...]:
    return tuple(constraint.key for constraint in constraints.topology) if constraints is not None else ()


def composite_key(namespace: str, name: str | None) -> UnitKey | None:
    """Return the key of a composite pod group; None without a name."""
    return (namespace, f"{COMPOSITE}/{name}") if name else None


def unit_name(unit: UnitKey) -> str:
    """Return what a key of a group names, as ``namespace/name``."""
    return f"{unit[0]}/{unit[1].removeprefix(f'{COMPOSITE}/')}"
