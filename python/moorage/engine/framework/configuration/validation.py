"""Validates a configuration (kube-scheduler v1.36, ``apis/config/validation``, with its messages)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moorage._core.base.label_syntax import requirement_errors
from moorage.engine.framework.configuration import types
from moorage.kube.go_texts import SECOND, format_nanoseconds, go_json, quote
from moorage.kube.releases import FeatureGates

from .go_structs import go_fields, members, write

# ---- field errors ------------------------------------------------------------------------------------------
# Messages of validation errors (apimachinery v0.36, ``util/validation/field`` and ``util/errors``).


def invalid(path: str, value: Any, detail: str) -> str:
    """Return the message ``Invalid value``; strings are quoted, other values are JSON.

    Parameters
    ----------
    path : str
        Path of the field, for example ``profiles[0].schedulerName``.
    detail : str
        Explanation at the end of the message.
    """
    return f"{path}: Invalid value: {quote(value) if isinstance(value, str) else go_json(value)}: {detail}"


def unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    """Return the message ``Unsupported value`` with the supported values."""
    known = ", ".join(map(quote, supported))
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {known}"


def required(path: str, detail: str = "") -> str:
    """Return the message ``Required value``.

    Parameters
    ----------
    detail : str, optional
        Explanation at the end of the message.
    """
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    """Return the message ``Forbidden``.

    Parameters
    ----------
    detail : str
        Explanation at the end of the message.
    """
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: str) -> str:
    """Return the message ``Duplicate value``."""
    return f"{path}: Duplicate value: {quote(value)}"


def aggregate(errors: Iterable[str]) -> str:
    """Join the distinct messages to one; "" for none."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


# ---- validation --------------------------------------------------------------------------------------------

Gates = FeatureGates
Errors = Iterator[str]
"""Error messages, in upstream's order."""

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
    return aggregate(_configuration(configuration, gates))


def _configuration(config: types.KubeSchedulerConfiguration, gates: Gates) -> Errors:
    if (burst := config.client_connection.burst) < 0:
        yield invalid("clientConnection.burst", burst, "must be non-negative")
    yield from _leader_election(config.leader_election)
    if (config.parallelism or 0) <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    yield from _profiles(config.profiles or [], gates)
    yield from _percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    yield from _percentage_of_placements(config.percentage_of_placements_to_score, "", gates)
    initial, longest = config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, detail)
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
            yield invalid(f"leaderElection.{name}", format_nanoseconds(duration), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        shown = format_nanoseconds(election.renew_deadline)  # upstream prints the renew deadline here
        yield invalid("leaderElection.leaseDuration", shown, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        lock = election.resource_lock
        yield invalid("leaderElection.resourceLock", lock, 'resourceLock value must be "leases"')


def _percentage(percentage: int | None, path: str) -> Errors:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _percentage_of_placements(percentage: int | None, path: str, gates: Gates) -> Errors:
    path, gate = f"{path}percentageOfPlacementsToScore", "TopologyAwareWorkloadScheduling"
    if percentage is not None and not gates[gate]:
        detail = f"percentageOfPlacementsToScore requires {gate} feature gate to be enabled"
        yield forbidden(path, detail)
    else:
        yield from _percentage(percentage, path)


def _profiles(profiles: Sequence[types.KubeSchedulerProfile], gates: Gates) -> Errors:
    names = set()
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        name = profile.scheduler_name or ""
        if not name:
            yield required(f"{path}.schedulerName")
        yield from _percentage(profile.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
        yield from _percentage_of_placements(profile.percentage_of_placements_to_score, f"{path}.", gates)
        unchecked = () if gates.release.removed_plugins_are_refused_everywhere else _PLACEMENT_POINTS
        yield from _removed_plugins(profile.plugins or types.Plugins(), f"{path}.plugins", unchecked)
        yield from _plugin_config(profile, f"{path}.pluginConfig", gates)
        if name in names:
            # Upstream passes the path of the first field, which prints as an empty object.
            yield f"{path}.schedulerName: Duplicate value: {{}}"
        names.add(name)
    yield from _common_queue_sort(profiles)


def _removed(name: str, path: str) -> Errors:
    if name in _REMOVED:
        version = f"KubeSchedulerConfiguration is version {quote(types.API_VERSION)}"
        yield invalid(path, name, f'was invalid in version "v1" ({version})')


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
            yield duplicate(where, item.name)
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
        yield invalid(path, len(enabled), "only one queue sort plugin can be enabled")
    name = enabled[0].name if enabled else ""
    args = _written(None)
    for config in profiles[0].plugin_config or ():
        if name and config.name == name:
            args = _written(config.args)
    for i, profile in enumerate(profiles[1:], 1):
        other = _go_plugin_set(_queue_sort(profile))
        if other != _go_plugin_set(first):
            yield invalid(f"profiles[{i}].plugins.queueSort", other, "must be the same for all profiles")
        for config in profile.plugin_config or ():
            if config.name == name and (other_args := _written(config.args)) != args:
                text = f"Invalid value: {other_args}: queueSort must be the same for all profiles"
                yield f"profiles[{i}].pluginConfig.args: {text}"


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
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources or ()):
            where = f"{path}.managedResources[{j}].name"
            yield from _extended_resource(resource.name, where)
            if resource.name in managed:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        text = f"found {binders} extenders implementing bind"
        yield invalid("extenders", text, "only one extender can implement bind")


def _extended_resource(name: str, path: str) -> Errors:
    if wrong := label_name_errors(name, path):
        yield from wrong
        return
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or label_name_errors(f"requests.{name}", path):
        yield invalid(path, name, "is an invalid extended resource name")


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
        yield invalid(path, value, "not in valid range [0, 100]")


def _default_preemption(args: types.DefaultPreemptionArgs, path: str) -> Errors:
    percentage, absolute = args.min_candidate_nodes_percentage or 0, args.min_candidate_nodes_absolute or 0
    names = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    yield from _percent(percentage, f"{path}.{names[0]}")
    if absolute < 0:
        yield invalid(f"{path}.{names[1]}", absolute, "not in valid range [0, inf)")
    if percentage == 0 and absolute == 0:
        for name, other in (names, names[::-1]):
            yield invalid(f"{path}.{name}", 0, f"cannot be zero at the same time as {other}")


def _node_affinity(args: types.NodeAffinityArgs, path: str) -> Errors:
    affinity = args.added_affinity
    if affinity is None:
        return
    if affinity.required is not None:
        terms = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for i, term in enumerate(affinity.required.node_selector_terms or ()):
            yield from _term_errors(term, f"{terms}[{i}]")
    for i, preferred in enumerate(affinity.preferred or ()):
        if preferred.weight:
            where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            yield from _term_errors(preferred.preference, where)


def _balanced_allocation(args: types.NodeResourcesBalancedAllocationArgs, path: str) -> Errors:
    names = set()
    for i, resource in enumerate(args.resources or ()):
        if resource.name in names:
            yield duplicate(f"{path}[{i}].name", resource.name)
        names.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{path}[{i}].weight", resource.weight, "must be 1")


def _pod_topology_spread(args: types.PodTopologySpreadArgs, path: str) -> Errors:
    constraints = args.default_constraints or []
    type_path = f"{path}.defaultingType"
    known = (types.SYSTEM_DEFAULTING, types.LIST_DEFAULTING)
    if args.defaulting_type not in known:
        yield unsupported(type_path, args.defaulting_type, known)
    elif args.defaulting_type == types.SYSTEM_DEFAULTING and constraints:
        yield invalid(type_path, args.defaulting_type, "when .defaultConstraints are not empty")
    pairs = set()
    for i, constraint in enumerate(constraints):
        where = f"{path}.defaultConstraints[{i}]"
        yield from _constraint(constraint, where)
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in pairs:
            yield duplicate(where, f"{{{pair[0]}, {pair[1]}}}")
        pairs.add(pair)


def _constraint(constraint: types.TopologySpreadConstraint, path: str) -> Errors:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        yield from label_name_errors(constraint.topology_key, f"{path}.topologyKey")
    else:
        yield required(f"{path}.topologyKey", "can not be empty")
    action, actions = constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in actions:
        yield unsupported(f"{path}.whenUnsatisfiable", action, actions)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", detail)


def _volume_binding(args: types.VolumeBindingArgs, path: str, gates: Gates) -> Errors:
    timeout = args.bind_timeout_seconds or 0
    if timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", timeout, detail)
    if gates["StorageCapacityScoring"]:
        yield from _shape(args.shape or [], f"{path}.shape")
    elif args.shape is not None:
        # Go prints the fields of its internal type.
        points = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(f"{path}.shape", points, detail)


def _shape(shape: Sequence[types.UtilizationShapePoint], path: str) -> Errors:
    if not shape:
        yield required(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            where = f"{path}[{i}].utilization"
            yield invalid(where, shape[i].utilization, "values must be sorted in increasing order")
            break
    for i, point in enumerate(shape):
        yield from _percent(point.utilization, f"{path}[{i}].utilization")
        if not 0 <= point.score <= _MAX_CUSTOM_SCORE:
            detail = f"not in valid range [0, {_MAX_CUSTOM_SCORE}]"
            yield invalid(f"{path}[{i}].score", point.score, detail)


def _dynamic_resources(args: types.DynamicResourcesArgs, path: str, gates: Gates) -> Errors:
    filter_path, binding_path = f"{path}.filterTimeout", f"{path}.bindingTimeout"
    if args.filter_timeout is not None:
        if not gates["DRASchedulerFilterTimeout"]:
            yield forbidden(filter_path, "DRASchedulingFilterTimeout feature gate is disabled")
        elif args.filter_timeout < 0:
            yield invalid(filter_path, format_nanoseconds(args.filter_timeout), "must be zero or positive")
    if args.binding_timeout is not None:
        if not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
            detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield forbidden(binding_path, detail)
        elif args.binding_timeout < SECOND:
            yield invalid(binding_path, format_nanoseconds(args.binding_timeout), "must be at least 1 second")


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
            yield invalid(where, group, "resource group name can't contain '/'")
        yield from label_name_errors(group, where)
    yield from _strategy(args.scoring_strategy or types.ScoringStrategy())


def _strategy(strategy: types.ScoringStrategy) -> Errors:
    if strategy.type not in types.STRATEGIES:
        yield unsupported("scoringStrategy.type", strategy.type, types.STRATEGIES)
    for i, resource in enumerate(strategy.resources or ()):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"scoringStrategy.resources[{i}].weight", resource.weight, detail)
    path = "scoringStrategy.requestedToCapacityRatio"
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != types.REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape(ratio.shape or [], f"{path}.shape")


_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def label_name_errors(name: str, path: str) -> list[str]:
    """Return the errors of a label key.

    Returns
    -------
    list of str
        One message for each reason; empty for a valid key.
    """
    return [
        invalid(path, name, reason)
        for _, _, detail in requirement_errors(name, "Exists", ())
        for reason in detail.split("; ")
    ]


def _term_errors(term: types.NodeSelectorTerm, path: str) -> Errors:
    for i, requirement in enumerate(term.match_expressions or ()):
        yield from _requirement_errors(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.match_fields or ()):
        where, values = f"{path}.matchFields[{i}]", requirement.values
        if requirement.operator not in _FIELD_OPERATORS:
            yield unsupported(f"{where}.operator", requirement.operator, _FIELD_OPERATORS)
        elif len(values or ()) != 1:
            yield invalid(f"{where}.values", values, "must have one element")


def _requirement_errors(requirement: types.NodeSelectorRequirement, path: str) -> Errors:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        yield unsupported(f"{path}.operator", operator, _LABEL_OPERATORS)
        return
    for field, value, detail in requirement_errors(key, operator, tuple(values or ())):
        yield invalid(f"{path}.{field}", values if field == "values" else value, detail)
