"""Validation of plugin arguments (kube-scheduler v1.36, ``apis/config/validation``, with its texts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moorage.framework.runtime.duration import format_nanoseconds

from .args import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    TopologySpreadConstraint,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from .reading.durations import SECOND
from .reading.field_errors import (
    duplicate,
    forbidden,
    invalid,
    join,
    required,
    unsupported,
)
from .selector_syntax import label_name_errors, node_selector_errors, preferred_term_errors
from .types import Typed

Gates = Mapping[str, bool]
_STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
_MAX_CUSTOM_SCORE = 10


def validate_args(args: Typed, path: str, gates: Gates) -> list[str]:
    """What is wrong with the arguments of a plugin.

    Arguments of NodeResourcesFit are not looked at: upstream checks them when it builds the plugin
    (`validate_node_resources_fit`).
    """
    match args:
        case DefaultPreemptionArgs():
            return _default_preemption(args, path)
        case InterPodAffinityArgs():
            return _percent(args.hard_pod_affinity_weight or 0, join(path, "hardPodAffinityWeight"))
        case NodeAffinityArgs():
            return _node_affinity(args, join(path, "addedAffinity"))
        case NodeResourcesBalancedAllocationArgs():
            return _balanced_allocation(args, join(path, "resources"))
        case PodTopologySpreadArgs():
            return _pod_topology_spread(args, path)
        case VolumeBindingArgs():
            return _volume_binding(args, path, gates)
        case DynamicResourcesArgs():
            return _dynamic_resources(args, path, gates)
    return []


def _percent(value: int, path: str) -> list[str]:
    return [] if 0 <= value <= 100 else [invalid(path, value, "not in valid range [0, 100]")]


def _default_preemption(args: DefaultPreemptionArgs, path: str) -> list[str]:
    percentage, absolute = args.min_candidate_nodes_percentage or 0, args.min_candidate_nodes_absolute or 0
    names = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    errors = _percent(percentage, join(path, names[0]))
    if absolute < 0:
        errors.append(invalid(join(path, names[1]), absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        for name, other in (names, names[::-1]):
            errors.append(invalid(join(path, name), 0, f"cannot be zero at the same time as {other}"))
    return errors


def _node_affinity(args: NodeAffinityArgs, path: str) -> list[str]:
    affinity = args.added_affinity
    if affinity is None:
        return []
    errors = []
    if affinity.required is not None:
        required_path = join(path, "requiredDuringSchedulingIgnoredDuringExecution")
        errors += node_selector_errors(affinity.required, required_path)
    preferred_path = join(path, "preferredDuringSchedulingIgnoredDuringExecution")
    return errors + preferred_term_errors(affinity.preferred or [], preferred_path)


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: str) -> list[str]:
    errors = []
    seen = set()
    for i, resource in enumerate(args.resources or ()):
        if resource.name in seen:
            errors.append(duplicate(f"{path}[{i}].name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid(f"{path}[{i}].weight", resource.weight, "must be 1"))
    return errors


def _pod_topology_spread(args: PodTopologySpreadArgs, path: str) -> list[str]:
    constraints = args.default_constraints or []
    type_path = join(path, "defaultingType")
    errors = []
    if args.defaulting_type not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
        known = (SYSTEM_DEFAULTING, LIST_DEFAULTING)
        errors.append(unsupported(type_path, args.defaulting_type, known))
    elif args.defaulting_type == SYSTEM_DEFAULTING and constraints:
        errors.append(invalid(type_path, args.defaulting_type, "when .defaultConstraints are not empty"))
    seen = set()
    for i, constraint in enumerate(constraints):
        where = f"{join(path, 'defaultConstraints')}[{i}]"
        errors += _constraint(constraint, where)
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            errors.append(duplicate(where, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return errors


def _constraint(constraint: TopologySpreadConstraint, path: str) -> list[str]:
    errors = []
    if constraint.max_skew <= 0:
        errors.append(invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if constraint.topology_key:
        errors += label_name_errors(constraint.topology_key, f"{path}.topologyKey")
    else:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    action, actions = constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        errors.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in actions:
        errors.append(unsupported(f"{path}.whenUnsatisfiable", action, actions))
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden(f"{path}.labelSelector", detail))
    return errors


def _volume_binding(args: VolumeBindingArgs, path: str, gates: Gates) -> list[str]:
    errors = []
    timeout = args.bind_timeout_seconds or 0
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(join(path, "bindTimeoutSeconds"), timeout, detail))
    if gates["StorageCapacityScoring"]:
        errors += _shape(args.shape or [], join(path, "shape"))
    elif args.shape is not None:
        # Go prints the fields of its internal type.
        points = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        errors.append(invalid(join(path, "shape"), points, detail))
    return errors


def _shape(shape: Sequence[UtilizationShapePoint], path: str) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors = []
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            detail = "values must be sorted in increasing order"
            errors.append(invalid(f"{path}[{i}].utilization", shape[i].utilization, detail))
            break
    for i, point in enumerate(shape):
        errors += _percent(point.utilization, f"{path}[{i}].utilization")
        if not 0 <= point.score <= _MAX_CUSTOM_SCORE:
            detail = f"not in valid range [0, {_MAX_CUSTOM_SCORE}]"
            errors.append(invalid(f"{path}[{i}].score", point.score, detail))
    return errors


def _dynamic_resources(args: DynamicResourcesArgs, path: str, gates: Gates) -> list[str]:
    errors = []
    filter_path, binding_path = join(path, "filterTimeout"), join(path, "bindingTimeout")
    if args.filter_timeout is not None:
        if not gates["DRASchedulerFilterTimeout"]:
            errors.append(forbidden(filter_path, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif args.filter_timeout < 0:
            text = format_nanoseconds(args.filter_timeout)
            errors.append(invalid(filter_path, text, "must be zero or positive"))
    if args.binding_timeout is not None:
        if not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
            detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            errors.append(forbidden(binding_path, detail))
        elif args.binding_timeout < SECOND:
            text = format_nanoseconds(args.binding_timeout)
            errors.append(invalid(binding_path, text, "must be at least 1 second"))
    return errors


def validate_node_resources_fit(args: NodeResourcesFitArgs) -> list[str]:
    """What is wrong with the arguments of NodeResourcesFit; paths start at the arguments."""
    errors = []
    for i, name in enumerate(args.ignored_resources or ()):
        errors += label_name_errors(name, f"ignoredResources[{i}]")
    for i, group in enumerate(args.ignored_resource_groups or ()):
        where = f"ignoredResourceGroups[{i}]"
        if "/" in group:
            errors.append(invalid(where, group, "resource group name can't contain '/'"))
        errors += label_name_errors(group, where)
    return errors + _strategy(args.scoring_strategy or ScoringStrategy())


def _strategy(strategy: ScoringStrategy) -> list[str]:
    errors = []
    if strategy.type not in _STRATEGIES:
        errors.append(unsupported("scoringStrategy.type", strategy.type, _STRATEGIES))
    errors += _weights(strategy.resources or [], "scoringStrategy.resources")
    path = "scoringStrategy.requestedToCapacityRatio"
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        detail = "must be nil when type is not RequestedToCapacityRatio"
        return errors + ([] if ratio is None else [forbidden(path, detail)])
    if ratio is None:
        return [*errors, required(path, "must be specified when type is RequestedToCapacityRatio")]
    return errors + _shape(ratio.shape or [], f"{path}.shape")


def _weights(resources: Sequence[ResourceSpec], path: str) -> list[str]:
    return [
        invalid(
            f"{path}[{i}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for i, resource in enumerate(resources)
        if not 0 < resource.weight <= 100
    ]
