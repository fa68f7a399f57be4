"""PodGroup: pods that are scheduled together, at least a minimum number of them or none."""

from __future__ import annotations

from typing import Annotated

from moorage._core.base.fields import GROUP_ANNOTATION as GROUP_ANNOTATION
from moorage._core.base.fields import group_of as group_of
from moorage.errors import InputError

from .field_rules import between, labels, one_of, required
from .meta import Condition, Int32, Object, Struct
from .pod import Pod

GODEL = "scheduling.godel.kubewharf.io"
"""The API group of Gödel's PodGroup."""

UnitKey = tuple[str, str]
"""Namespace and name of a group."""


class GangSchedulingPolicy(Struct, frozen=True):
    """Schedules at least `min_count` pods of a group, or none."""

    min_count: Annotated[Int32, between(1)] = 0


class BasicSchedulingPolicy(Struct, frozen=True):
    """Schedules the pods of a group without a minimum."""


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """The scheduling policy: exactly one of `gang` and `basic`."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None

    def check(self) -> None:
        if (self.basic is None) == (self.gang is None):
            raise InputError("must have exactly one of basic, gang")


def _check_key(key: str) -> None:
    labels({key: ""})


class TopologyConstraint(Struct, frozen=True):
    """A node label that must have one value on all nodes of a group."""

    key: Annotated[str, required, _check_key] = ""


def _check_topology(topology: tuple[TopologyConstraint, ...]) -> None:
    if len(topology) > 1:
        raise InputError("must have at most 1 item")


class PodGroupSchedulingConstraints(Struct, frozen=True):
    """Constraints on the nodes of a group."""

    topology: Annotated[tuple[TopologyConstraint, ...], _check_topology] = ()


class SingleDisruptionMode(Struct, frozen=True):
    """Members are evicted individually."""


class AllDisruptionMode(Struct, frozen=True):
    """Members are evicted only together."""


class DisruptionMode(Struct, frozen=True):
    """The disruption mode: exactly one of `single` and `all`."""

    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None

    def check(self) -> None:
        if (self.single is None) == (self.all is None):
            raise InputError("must have exactly one of single, all")


def _check_mode(mode: DisruptionMode | str | None) -> None:
    if isinstance(mode, str):
        one_of("Pod", "PodGroup", required=True)(mode)


class WorkloadReference(Struct, frozen=True):
    """A reference to a workload object."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(Struct, frozen=True):
    """Spec of a pod group.

    `min_member` and `schedule_timeout_seconds` are fields of Gödel's kind, all others of Kubernetes'. In
    v1alpha2 the disruption mode is a string, ``Pod`` or ``PodGroup``.
    """

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: Annotated[DisruptionMode | str | None, _check_mode] = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    min_member: Annotated[Int32 | None, between(1)] = None
    schedule_timeout_seconds: Annotated[Int32 | None, between(0)] = None


_PHASES = ("Pending", "PreScheduling", "Scheduled", "Running", "Finished", "Failed", "Timeout", "Unknown")


class PodGroupStatus(Struct, frozen=True):
    """Status of a pod group; `phase` is a field of Gödel's kind."""

    conditions: tuple[Condition, ...] = ()
    phase: Annotated[str, one_of(*_PHASES)] = ""


class PodGroup(Object, frozen=True):
    """A pod group of ``scheduling.k8s.io`` (v1alpha2, v1alpha3, v1beta1) or of Gödel (v1alpha1)."""

    kind: str = "PodGroup"
    api_version: str = "scheduling.k8s.io/v1beta1"
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    def check(self) -> None:
        if self.is_godel and self.spec.min_member is None:
            raise InputError("required", path="spec.minMember")
        if not self.is_godel and self.spec.scheduling_policy is None:
            raise InputError("required", path="spec.schedulingPolicy")

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
        constraints = self.spec.scheduling_constraints
        return tuple(constraint.key for constraint in constraints.topology) if constraints is not None else ()

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether members are evicted only together."""
        mode = self.spec.disruption_mode
        return mode == "PodGroup" if isinstance(mode, str) else mode is not None and mode.all is not None


KINDS = (PodGroup,)
"""The kinds of this module that files are decoded to."""


def unit_of(obj: object) -> UnitKey | None:
    """Return namespace and name of a PodGroup, or of a pod's group.

    Parameters
    ----------
    obj : object
        An object of any kind.

    Returns
    -------
    UnitKey or None
        None for a pod without a group, and for other kinds.
    """
    if isinstance(obj, Pod):
        return group_of(obj)
    return (obj.namespace, obj.name) if isinstance(obj, PodGroup) else None
