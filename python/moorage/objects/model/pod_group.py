"""PodGroup: pods that are scheduled as a unit, all that its minimum asks for or none."""

from __future__ import annotations

from .meta import Condition, Int32, Object, Struct
from .pod import Pod

GODEL = "scheduling.godel.kubewharf.io"
"""The API group of Gödel's PodGroup."""

GROUP_ANNOTATION = "godel.bytedance.com/pod-group-name"
"""Names a pod's group where `spec.schedulingGroup` does not (Gödel)."""

UnitKey = tuple[str, str]
"""Namespace and name of a group."""


class GangSchedulingPolicy(Struct, frozen=True):
    min_count: Int32 = 0


class BasicSchedulingPolicy(Struct, frozen=True):
    pass


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """Exactly one: `gang`, all of the minimum or nobody; `basic`, whoever fits."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class SingleDisruptionMode(Struct, frozen=True):
    pass


class AllDisruptionMode(Struct, frozen=True):
    pass


class DisruptionMode(Struct, frozen=True):
    """Who leaves when one member is evicted: exactly one of itself alone, and all of its group."""

    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class WorkloadReference(Struct, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Struct, frozen=True):
    """`min_member` and `schedule_timeout_seconds` are Gödel's, all others Kubernetes'.

    In v1alpha2 the disruption mode is a word, ``Pod`` or ``PodGroup``.
    """

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | str | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    min_member: Int32 | None = None
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct, frozen=True):
    """`phase` is Gödel's."""

    conditions: tuple[Condition, ...] = ()
    phase: str = ""


class PodGroup(Object, frozen=True):
    """Of ``scheduling.k8s.io`` (v1alpha2, v1alpha3, v1beta1), or of Gödel (v1alpha1)."""

    kind: str = "PodGroup"
    api_version: str = "scheduling.k8s.io/v1beta1"
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def is_godel(self) -> bool:
        return self.api_version.startswith(GODEL)

    @property
    def min_count(self) -> int:
        """How many pods must have a node before one is bound; 0 where nobody waits for others."""
        policy = self.spec.scheduling_policy
        if policy is not None:
            return policy.gang.min_count if policy.gang is not None else 0
        return self.spec.min_member or 0

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """The labels of which all nodes of the group's pods must have one value."""
        constraints = self.spec.scheduling_constraints
        return tuple(one.key for one in constraints.topology) if constraints is not None else ()

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether all members leave when one is evicted."""
        mode = self.spec.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and mode.all is not None


def unit_of(obj: object) -> UnitKey | None:
    """The group that an object is, or that a pod is in; None for anything else."""
    if isinstance(obj, Pod):
        return group_of(obj)
    return (obj.namespace, obj.name) if isinstance(obj, PodGroup) else None


def group_of(pod: Pod) -> UnitKey | None:
    """Namespace and name of the group that a pod asks to be scheduled with; None where there is none."""
    group, meta = pod.spec.scheduling_group, pod.metadata
    name = meta.annotations.get(GROUP_ANNOTATION, "") if group is None else group.pod_group_name
    return (meta.namespace, name) if name else None
