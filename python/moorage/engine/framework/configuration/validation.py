"""Validates a configuration (kube-scheduler v1.36, ``apis/config/validation``, with its messages)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moorage._core.base.label_syntax import requirement_errors
from moorage.engine.framework.configuration import types
from moorage.kube.apiserver.go_structs import go_fields, members, write
from moorage.kube.field_errors import (
    Fault,
    Json,
    aggregate,
    duplicate,
    forbidden,
    invalid,
    part,
    parts,
    required,
    unsupported,
)
from moorage.kube.go_texts import SECOND, format_nanoseconds, go_json, quote
from moorage.kube.releases import FeatureGates

Gates = FeatureGates
Errors = Iterator[Fault]
"""What is wrong, in upstream's order."""

_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_PLACEMENT_POINTS = ("placement_generate", "placement_score", "placement_feasible")


def validate(configuration: types.KubeSchedulerConfiguration, gates: Gates) -> str:
    """Validate a configuration that has its defaults.

    Returns
    -------
    str
        All errors as one message, "" for none. Errors about removed plugins at several extension points,
        which upstream lists in the order of a Go map, are in the order of the fields.
    """
    return message(_configuration(configuration, gates))


def message(faults: Iterable[Fault]) -> str:
    """Return what is wrong as one message, "" for nothing."""
    return aggregate(f"{field}: {text}" for field, text in faults)


def _configuration(config: types.KubeSchedulerConfiguration, gates: Gates) -> Errors:
    if (burst := config.client_connection.burst) < 0:
        yield Fault("clientConnection.burst", invalid(burst, "must be non-negative"))
    yield from _leader_election(config.leader_election)
    if (config.parallelism or 0) <= 0:
        yield Fault(
            "parallelism", invalid(config.parallelism, "should be an integer value greater than zero")
        )
    yield from _profiles(config.profiles or [], gates)
    yield from _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    yield from _percentage_of_placements(config.percentage_of_placements_to_score, "", gates)
    initial, longest = config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0
    if initial <= 0:
        yield Fault("podInitialBackoffSeconds", invalid(initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield Fault("podMaxBackoffSeconds", invalid(longest, detail))
    yield from _extenders(config.extenders or [])


def _leader_election(election: types.LeaderElectionConfiguration) -> Errors:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            yield Fault(
                f"leaderElection.{name}", invalid(format_nanoseconds(duration), "must be greater than zero")
            )
    if election.lease_duration <= election.renew_deadline:
        shown = format_nanoseconds(election.renew_deadline)  # upstream prints the renew deadline here
        yield Fault("leaderElection.leaseDuration", invalid(shown, "must be greater than `RenewDeadline`"))
    if election.resource_lock != "leases":
        lock = election.resource_lock
        yield Fault("leaderElection.resourceLock", invalid(lock, 'resourceLock value must be "leases"'))


def _percentage(percentage: int | None, path: str) -> Errors:
    if percentage is not None and not 0 <= percentage <= 100:
        yield Fault(path, invalid(percentage, "not in valid range [0-100]"))


def _percentage_of_placements(percentage: int | None, path: str, gates: Gates) -> Errors:
    path, gate = f"{path}percentageOfPlacementsToScore", "TopologyAwareWorkloadScheduling"
    if percentage is not None and not gates[gate]:
        detail = f"percentageOfPlacementsToScore requires {gate} feature gate to be enabled"
        yield Fault(path, forbidden(detail))
    else:
        yield from _percentage(percentage, path)


def _profiles(profiles: Sequence[types.KubeSchedulerProfile], gates: Gates) -> Errors:
    names = set()
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name or ""
        if not name:
            yield Fault(f"{path}.schedulerName", required())
        yield from _percentage(profile.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
        yield from _percentage_of_placements(profile.percentage_of_placements_to_score, f"{path}.", gates)
        unchecked = () if gates.release.removed_plugins_are_refused_everywhere else _PLACEMENT_POINTS
        yield from _removed_plugins(profile.plugins or types.Plugins(), f"{path}.plugins", unchecked)
        yield from _plugin_config(profile, f"{path}.pluginConfig", gates)
        if name in names:
            # Upstream passes the path of the first field, which prints as an empty object.
            yield Fault(f"{path}.schedulerName", duplicate({}))
        names.add(name)
    yield from _common_queue_sort(profiles)


def _removed(name: str, path: str) -> Errors:
    if name in _REMOVED:
        version = f"KubeSchedulerConfiguration is version {quote(types.API_VERSION)}"
        yield Fault(path, invalid(name, f'was invalid in version "v1" ({version})'))


def _removed_plugins(plugins: types.Plugins, path: str, unchecked: Sequence[str]) -> Errors:
    for point in go_fields(types.Plugins).values():
        if point.attribute in ("multi_point", *unchecked):
            continue
        for i, plugin in enumerate(getattr(plugins, point.attribute).enabled or ()):
            yield from _removed(plugin.name, f"{path}.{point.wire}.enabled[{i}]")


def _plugin_config(profile: types.KubeSchedulerProfile, path: str, gates: Gates) -> Errors:
    names = set()
    for i, item in enumerate(profile.plugin_config or ()):
        where = f"{path}[{i}]"
        if item.name in names:
            yield Fault(where, duplicate(item.name))
        names.add(item.name)
        yield from _removed(item.name, where)
        if isinstance(item.args, types.Typed):
            yield from validate_args(item.args, f"{where}.args", gates)


def _queue_sort(profile: types.KubeSchedulerProfile) -> types.PluginSet:
    return (profile.plugins or types.Plugins()).queue_sort


def _go_plugin_set(plugins: types.PluginSet) -> dict[str, Any]:
    """A plugin set as Go prints its internal type."""
    return {
        name: listed and [{"Name": plugin.name, "Weight": plugin.weight or 0} for plugin in listed]
        for name, listed in (("Enabled", plugins.enabled), ("Disabled", plugins.disabled))
    }


def _common_queue_sort(profiles: Sequence[types.KubeSchedulerProfile]) -> Errors:
    """Errors where profiles have different QueueSort plugins or arguments."""
    first = _queue_sort(profiles[0])
    enabled = first.enabled or []
    if len(enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield Fault(path, invalid(len(enabled), "only one queue sort plugin can be enabled"))
    name = enabled[0].name if enabled else ""
    args = _written(None)
    for config in profiles[0].plugin_config or ():
        if name and config.name == name:
            args = _written(config.args)
    for i, profile in enumerate(profiles[1:], 1):
        other = _go_plugin_set(_queue_sort(profile))
        if other != _go_plugin_set(first):
            yield Fault(
                f"profiles[{i}].plugins.queueSort", invalid(other, "must be the same for all profiles")
            )
        for config in profile.plugin_config or ():
            if config.name == name and (other_args := _written(config.args)) != args:
                text = f"Invalid value: {other_args}: queueSort must be the same for all profiles"
                yield Fault(f"profiles[{i}].pluginConfig.args", text)


def _written(args: Any) -> str:
    """Arguments of a plugin as JSON, with the members in the order that Go has them."""
    if isinstance(args, types.Typed):
        return go_json(write(args))
    if isinstance(args, Mapping):
        return f"{{{','.join(f'{go_json(name)}:{_written(value)}' for name, value in members(args))}}}"
    return f"[{','.join(map(_written, args))}]" if isinstance(args, list) else go_json(args)


def _extenders(extenders: Sequence[types.Extender]) -> Errors:
    managed = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield Fault(
                f"{path}.weight", invalid(extender.weight, "must have a positive weight applied to it")
            )
        for j, resource in enumerate(extender.managed_resources or ()):
            where = f"{path}.managedResources[{j}].name"
            yield from _extended_resource(resource.name, where)
            if resource.name in managed:
                yield Fault(where, invalid(resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        text = f"found {binders} extenders implementing bind"
        yield Fault("extenders", invalid(text, "only one extender can implement bind"))


def _extended_resource(name: str, path: str) -> Errors:
    if wrong := label_name_errors(name, path):
        yield from wrong
        return
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or label_name_errors(f"requests.{name}", path):
        yield Fault(path, invalid(name, "is an invalid extended resource name"))


_MAX_CUSTOM_SCORE = 10


def validate_args(args: types.Typed, path: str, gates: Gates) -> Errors:
    """Validate the arguments of a plugin.

    Arguments of NodeResourcesFit are not validated here: upstream validates them when it builds the plugin
    (`validate_node_resources_fit`).

    Parameters
    ----------
    path : str
        Path of the field with the arguments.
    """
    match args:
        case types.DefaultPreemptionArgs():
            return _default_preemption(args, path)
        case types.InterPodAffinityArgs():
            return _percent(args.hard_pod_affinity_weight or 0, f"{path}.hardPodAffinityWeight")
        case types.NodeAffinityArgs():
            return _node_affinity(args, f"{path}.addedAffinity")
        case types.NodeResourcesBalancedAllocationArgs():
            return _balanced_allocation(args, f"{path}.resources")
        case types.PodTopologySpreadArgs():
            return _pod_topology_spread(args, path)
        case types.VolumeBindingArgs():
            return _volume_binding(args, path, gates)
        case types.DynamicResourcesArgs():
            return _dynamic_resources(args, path, gates)
    return iter(())


def _percent(value: int, path: str) -> Errors:
    if not 0 <= value <= 100:
        yield Fault(path, invalid(value, "not in valid range [0, 100]"))


def _default_preemption(args: types.DefaultPreemptionArgs, path: str) -> Errors:
    percentage, absolute = args.min_candidate_nodes_percentage or 0, args.min_candidate_nodes_absolute or 0
    names = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    yield from _percent(percentage, f"{path}.{names[0]}")
    if absolute < 0:
        yield Fault(f"{path}.{names[1]}", invalid(absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        for name, other in (names, names[::-1]):
            yield Fault(f"{path}.{name}", invalid(0, f"cannot be zero at the same time as {other}"))


def _node_affinity(args: types.NodeAffinityArgs, path: str) -> Errors:
    affinity = args.added_affinity or {}
    required_field, preferred_field = (
        f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
    )
    for i, term in enumerate(parts(part(affinity, required_field), "nodeSelectorTerms")):
        yield from term_errors(term, f"{path}.{required_field}.nodeSelectorTerms[{i}]")
    for i, preferred in enumerate(parts(affinity, preferred_field)):
        if preferred.get("weight"):
            yield from term_errors(part(preferred, "preference"), f"{path}.{preferred_field}[{i}]")


def _balanced_allocation(args: types.NodeResourcesBalancedAllocationArgs, path: str) -> Errors:
    names = set()
    for i, resource in enumerate(args.resources or ()):
        if resource.name in names:
            yield Fault(f"{path}[{i}].name", duplicate(resource.name))
        names.add(resource.name)
        if resource.weight != 1:
            yield Fault(f"{path}[{i}].weight", invalid(resource.weight, "must be 1"))


def _pod_topology_spread(args: types.PodTopologySpreadArgs, path: str) -> Errors:
    constraints = args.default_constraints or []
    type_path = f"{path}.defaultingType"
    known = (types.SYSTEM_DEFAULTING, types.LIST_DEFAULTING)
    if args.defaulting_type not in known:
        yield Fault(type_path, unsupported(args.defaulting_type, known))
    elif args.defaulting_type == types.SYSTEM_DEFAULTING and constraints:
        yield Fault(type_path, invalid(args.defaulting_type, "when .defaultConstraints are not empty"))
    pairs = set()
    for i, constraint in enumerate(constraints):
        where = f"{path}.defaultConstraints[{i}]"
        yield from _constraint(constraint, where)
        pair = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if pair in pairs:
            yield Fault(where, duplicate(f"{{{pair[0]}, {pair[1]}}}"))
        pairs.add(pair)


def _constraint(constraint: Json, path: str) -> Errors:
    if (skew := constraint.get("maxSkew") or 0) <= 0:
        yield Fault(f"{path}.maxSkew", invalid(skew, "not in valid range (0, inf)"))
    if key := constraint.get("topologyKey"):
        yield from label_name_errors(key, f"{path}.topologyKey")
    else:
        yield Fault(f"{path}.topologyKey", required("can not be empty"))
    action, actions = constraint.get("whenUnsatisfiable"), ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        yield Fault(f"{path}.whenUnsatisfiable", required("can not be empty"))
    elif action not in actions:
        yield Fault(f"{path}.whenUnsatisfiable", unsupported(action, actions))
    if constraint.get("labelSelector") is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield Fault(f"{path}.labelSelector", forbidden(detail))


def _volume_binding(args: types.VolumeBindingArgs, path: str, gates: Gates) -> Errors:
    timeout = args.bind_timeout_seconds or 0
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield Fault(f"{path}.bindTimeoutSeconds", invalid(timeout, detail))
    if gates["StorageCapacityScoring"]:
        yield from _shape(args.shape or [], f"{path}.shape")
    elif args.shape is not None:
        # Go prints the fields of its internal type.
        points = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield Fault(f"{path}.shape", invalid(points, detail))


def _shape(shape: Sequence[types.UtilizationShapePoint], path: str) -> Errors:
    if not shape:
        yield Fault(path, required("at least one point must be specified"))
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            where = f"{path}[{i}].utilization"
            yield Fault(where, invalid(shape[i].utilization, "values must be sorted in increasing order"))
            break
    for i, point in enumerate(shape):
        yield from _percent(point.utilization, f"{path}[{i}].utilization")
        if not 0 <= point.score <= _MAX_CUSTOM_SCORE:
            detail = f"not in valid range [0, {_MAX_CUSTOM_SCORE}]"
            yield Fault(f"{path}[{i}].score", invalid(point.score, detail))


def _dynamic_resources(args: types.DynamicResourcesArgs, path: str, gates: Gates) -> Errors:
    filter_path, binding_path = f"{path}.filterTimeout", f"{path}.bindingTimeout"
    if args.filter_timeout is not None:
        if not gates["DRASchedulerFilterTimeout"]:
            yield Fault(filter_path, forbidden("DRASchedulingFilterTimeout feature gate is disabled"))
        elif args.filter_timeout < 0:
            yield Fault(
                filter_path, invalid(format_nanoseconds(args.filter_timeout), "must be zero or positive")
            )
    if args.binding_timeout is not None:
        if not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
            detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield Fault(binding_path, forbidden(detail))
        elif args.binding_timeout < SECOND:
            yield Fault(
                binding_path, invalid(format_nanoseconds(args.binding_timeout), "must be at least 1 second")
            )


def validate_node_resources_fit(args: types.NodeResourcesFitArgs) -> Errors:
    """Validate the arguments of NodeResourcesFit.

    Returns
    -------
    iterator of str
        The error messages, with paths within the arguments.
    """
    for i, name in enumerate(args.ignored_resources or ()):
        yield from label_name_errors(name, f"ignoredResources[{i}]")
    for i, group in enumerate(args.ignored_resource_groups or ()):
        where = f"ignoredResourceGroups[{i}]"
        if "/" in group:
            yield Fault(where, invalid(group, "resource group name can't contain '/'"))
        yield from label_name_errors(group, where)
    yield from _strategy(args.scoring_strategy or types.ScoringStrategy())


def _strategy(strategy: types.ScoringStrategy) -> Errors:
    if strategy.type not in types.STRATEGIES:
        yield Fault("scoringStrategy.type", unsupported(strategy.type, types.STRATEGIES))
    for i, resource in enumerate(strategy.resources or ()):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield Fault(f"scoringStrategy.resources[{i}].weight", invalid(resource.weight, detail))
    path = "scoringStrategy.requestedToCapacityRatio"
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != types.REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            yield Fault(path, forbidden("must be nil when type is not RequestedToCapacityRatio"))
    elif ratio is None:
        yield Fault(path, required("must be specified when type is RequestedToCapacityRatio"))
    else:
        yield from _shape(ratio.shape or [], f"{path}.shape")


_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def label_name_errors(name: str, path: str) -> list[Fault]:
    """Return what is wrong with a label key: each reason."""
    return [
        Fault(path, invalid(name, reason))
        for _, _, detail in requirement_errors(name, "Exists", ())
        for reason in detail.split("; ")
    ]


def term_errors(term: Json, path: str) -> Errors:
    """Yield the parse errors of a term of a node selector (component-helpers v0.36, nodeaffinity.go)."""
    for i, requirement in enumerate(parts(term, "matchExpressions")):
        yield from _requirement_errors(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(parts(term, "matchFields")):
        where = f"{path}.matchFields[{i}]"
        operator, values = requirement.get("operator") or "", requirement.get("values")
        if operator not in _FIELD_OPERATORS:
            yield Fault(f"{where}.operator", unsupported(operator, _FIELD_OPERATORS))
        elif len(values or ()) != 1:
            yield Fault(f"{where}.values", invalid(values, "must have one element"))


def _requirement_errors(requirement: Json, path: str) -> Errors:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values")
    if operator not in _LABEL_OPERATORS:
        yield Fault(f"{path}.operator", unsupported(operator, _LABEL_OPERATORS))
        return
    for field, value, detail in requirement_errors(key, operator, tuple(values or ())):
        yield Fault(f"{path}.{field}", invalid(values if field == "values" else value, detail))
