"""Upstream's defaults for missing fields of a configuration (kube-scheduler v1.36, ``apis/config/v1``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from moorage.engine.framework.configuration import args as plugin_args
from moorage.engine.framework.configuration import types
from moorage.kube.go_texts import SECOND
from moorage.kube.releases import FeatureGates

from ..plugin.interface import Plugin

Gates = FeatureGates
T = TypeVar("T")


def set_defaults(
    configuration: types.KubeSchedulerConfiguration, in_tree: Sequence[type[Plugin]], gates: Gates
) -> None:
    """Set the defaults of a configuration, in place.

    Parameters
    ----------
    configuration : KubeSchedulerConfiguration
        The decoded configuration.
    in_tree : sequence of type
        The in-tree plugins, in the order of the default MultiPoint list.
    gates : mapping of str to bool
        All feature gates.
    """
    config = configuration
    config.parallelism = _or(config.parallelism, 16)
    config.profiles = config.profiles or [types.KubeSchedulerProfile()]
    if len(config.profiles) == 1:
        config.profiles[0].scheduler_name = _or(config.profiles[0].scheduler_name, "default-scheduler")
    for profile in config.profiles:
        _profile(profile, in_tree, gates)
    config.percentage_of_nodes_to_score = _or(config.percentage_of_nodes_to_score, 0)
    _leader_election(config.leader_election)
    _client_connection(config.client_connection)
    config.pod_initial_backoff_seconds = _or(config.pod_initial_backoff_seconds, 1)
    config.pod_max_backoff_seconds = _or(config.pod_max_backoff_seconds, 10)
    config.enable_profiling = _or(config.enable_profiling, True)
    if config.enable_profiling:
        config.enable_contention_profiling = _or(config.enable_contention_profiling, True)


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _leader_election(election: types.LeaderElectionConfiguration) -> None:
    election.resource_lock = election.resource_lock or "leases"
    election.resource_namespace = election.resource_namespace or "kube-system"
    election.resource_name = election.resource_name or "kube-scheduler"
    election.lease_duration = election.lease_duration or 15 * SECOND
    election.renew_deadline = election.renew_deadline or 10 * SECOND
    election.retry_period = election.retry_period or 2 * SECOND
    election.leader_elect = _or(election.leader_elect, True)


def _client_connection(connection: types.ClientConnectionConfiguration) -> None:
    connection.content_type = connection.content_type or "application/vnd.kubernetes.protobuf"
    connection.qps = connection.qps or 50.0
    connection.burst = connection.burst or 100


def _profile(profile: types.KubeSchedulerProfile, in_tree: Sequence[type[Plugin]], gates: Gates) -> None:
    """Merge the plugin sets with the defaults, and add the arguments of enabled plugins."""
    defaults = [
        types.Plugin(name=plugin.name, weight=plugin.default_weight)
        for plugin in in_tree
        if not plugin.feature_gate or gates[plugin.feature_gate]
    ]
    custom = profile.plugins or types.Plugins()
    sets = {point: _merge([], getattr(custom, point)) for point in types.Plugins.__struct_fields__}
    sets["multi_point"] = _merge(defaults, custom.multi_point)
    profile.plugins = types.Plugins(**sets)
    profile.plugin_config = profile.plugin_config or []
    for config in profile.plugin_config:
        if isinstance(config.args, types.Typed):
            _args(config.args, gates)
    configured = {config.name for config in profile.plugin_config}
    enabled = {plugin.name for plugins in sets.values() for plugin in plugins.enabled or ()}
    for name in sorted(enabled - configured):
        args = default_args(name, gates)
        if args is not None:
            profile.plugin_config.append(types.PluginConfig(name=name, args=args))


def default_args(name: str, gates: Gates) -> types.Typed | None:
    """Return the default arguments of an in-tree plugin.

    Parameters
    ----------
    gates : mapping of str to bool
        All feature gates.

    Returns
    -------
    Typed or None
        None for a plugin without arguments.
    """
    if name not in plugin_args.ARGS:
        return None
    args = plugin_args.ARGS[name](kind=f"{name}Args", api_version=types.API_VERSION)
    _args(args, gates)
    return args


def _merge(defaults: list[types.Plugin], custom: types.PluginSet) -> types.PluginSet:
    """Merge a custom plugin set into the default list.

    Disabled plugins are removed; the custom plugins that replace no default follow in order. Of a plugin that
    is enabled twice the last entry replaces the default and the first one is appended, so that building the
    profile raises an error.
    """
    disabled = [types.Plugin(name=plugin.name) for plugin in custom.disabled or ()]
    off = {plugin.name for plugin in disabled}
    named = {plugin.name: index for index, plugin in enumerate(custom.enabled or ())}
    replaced = set()
    enabled = []
    for plugin in () if "*" in off else defaults:
        if plugin.name in off:
            continue
        index = named.get(plugin.name)
        if index is not None and custom.enabled:
            replaced.add(index)
            plugin = custom.enabled[index]
        enabled.append(plugin)
    enabled += [plugin for index, plugin in enumerate(custom.enabled or ()) if index not in replaced]
    return types.PluginSet(enabled=enabled or None, disabled=disabled or None)


def _resources(configured: list[plugin_args.ResourceSpec] | None) -> list[plugin_args.ResourceSpec]:
    resources = configured or [plugin_args.ResourceSpec(name=name) for name in ("cpu", "memory")]
    for resource in resources:
        resource.weight = resource.weight or 1
    return resources


def _args(args: types.Typed, gates: Gates) -> None:
    match args:
        case plugin_args.DefaultPreemptionArgs():
            args.min_candidate_nodes_percentage = _or(args.min_candidate_nodes_percentage, 10)
            args.min_candidate_nodes_absolute = _or(args.min_candidate_nodes_absolute, 100)
        case plugin_args.InterPodAffinityArgs():
            args.hard_pod_affinity_weight = _or(args.hard_pod_affinity_weight, 1)
        case plugin_args.VolumeBindingArgs():
            args.bind_timeout_seconds = _or(args.bind_timeout_seconds, 600)
            if not args.shape and gates["StorageCapacityScoring"]:
                point = plugin_args.UtilizationShapePoint
                args.shape = [point(utilization=0, score=10), point(utilization=100, score=0)]
        case plugin_args.NodeResourcesBalancedAllocationArgs():
            args.resources = _resources(args.resources)
        case plugin_args.PodTopologySpreadArgs():
            args.defaulting_type = args.defaulting_type or plugin_args.SYSTEM_DEFAULTING
        case plugin_args.NodeResourcesFitArgs():
            if args.scoring_strategy is None:
                args.scoring_strategy = plugin_args.ScoringStrategy(type=plugin_args.LEAST_ALLOCATED)
            args.scoring_strategy.resources = _resources(args.scoring_strategy.resources)
        case plugin_args.DynamicResourcesArgs():
            if gates["DRASchedulerFilterTimeout"]:
                args.filter_timeout = _or(args.filter_timeout, 10 * SECOND)
            if gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]:
                args.binding_timeout = _or(args.binding_timeout, 600 * SECOND)
