"""Validation of PodGroups; called by `validate`."""

from __future__ import annotations

from moorage.objects.model.pod_group import DisruptionMode, PodGroup, PodGroupSpec

from .validate_pod import check_enum, check_labels, check_range, fail

_MAX_TOPOLOGIES = 1
_MODES = ("Pod", "PodGroup")
_PHASES = ("Pending", "PreScheduling", "Scheduled", "Running", "Finished", "Failed", "Timeout", "Unknown")


def check_pod_group(group: PodGroup) -> None:
    """Check a group by pkg/apis/scheduling/validation of v1.36; of Gödel's groups minimum and phase."""
    spec = group.spec
    if group.is_godel:
        if spec.min_member is None:
            fail("spec.minMember", "required")
        check_range(spec.min_member, 1, None, "spec.minMember")
        check_range(spec.schedule_timeout_seconds, 0, None, "spec.scheduleTimeoutSeconds")
        check_enum(group.status.phase, _PHASES, "status.phase")
    else:
        _check_policy(spec)
        _check_constraints(spec)
        _check_disruption_mode(spec)


def _check_policy(spec: PodGroupSpec) -> None:
    policy = spec.scheduling_policy
    if policy is None:
        fail("spec.schedulingPolicy", "required")
    if (policy.basic is None) == (policy.gang is None):
        fail("spec.schedulingPolicy", "must have exactly one of basic, gang")
    if policy.gang is not None:
        check_range(policy.gang.min_count, 1, None, "spec.schedulingPolicy.gang.minCount")


def _check_constraints(spec: PodGroupSpec) -> None:
    if spec.scheduling_constraints is None:
        return
    path, topology = "spec.schedulingConstraints.topology", spec.scheduling_constraints.topology
    if len(topology) > _MAX_TOPOLOGIES:
        fail(path, f"must have at most {_MAX_TOPOLOGIES} item")
    for i, constraint in enumerate(topology):
        if not constraint.key:
            fail(f"{path}[{i}].key", "required")
        check_labels({constraint.key: ""}, f"{path}[{i}].key")


def _check_disruption_mode(spec: PodGroupSpec) -> None:
    mode = spec.disruption_mode
    if isinstance(mode, str):
        check_enum(mode, _MODES, "spec.disruptionMode", required=True)
    elif isinstance(mode, DisruptionMode) and (mode.single is None) == (mode.all is None):
        fail("spec.disruptionMode", "must have exactly one of single, all")
