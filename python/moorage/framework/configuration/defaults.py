"""Upstream's defaults for what a configuration leaves out (kube-scheduler v1.36, ``apis/config/v1``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from .args import (
    ARGS,
    LEAST_ALLOCATED,
    SYSTEM_DEFAULTING,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from .reading.durations import SECOND
from .types import (
    API_VERSION,
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Typed,
)

Gates = Mapping[str, bool]
T = TypeVar("T")


class InTreePlugin(Protocol):
    """What defaulting needs to know of an in-tree plugin.

    Attributes
    ----------
    default_weight : int
        0 where upstream's default list gives none.
    feature_gate : str
        The gate that puts it on the default list; "" if it is always there.
    """

    @property
    def name(self) -> str: ...
    @property
    def default_weight(self) -> int: ...
    @property
    def feature_gate(self) -> str: ...


def set_defaults(
    configuration: KubeSchedulerConfiguration, in_tree: Sequence[InTreePlugin], gates: Gates
) -> None:
    """Fill in the defaults, in place.

    Parameters
    ----------
    configuration : KubeSchedulerConfiguration
        As decoded.
    in_tree : sequence
        The in-tree plugins, in the order of the default MultiPoint list.
    gates : mapping
        All feature gates.
    """
    config = configuration
    config.parallelism = _or(config.parallelism, 16)
    config.profiles = config.profiles or [KubeSchedulerProfile()]
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


def _leader_election(election: LeaderElectionConfiguration) -> None:
    election.resource_lock = election.resource_lock or "leases"
    election.resource_namespace = election.resource_namespace or "kube-system"
    election.resource_name = election.resource_name or "kube-scheduler"
    election.lease_duration = election.lease_duration or 15 * SECOND
    election.renew_deadline = election.renew_deadline or 10 * SECOND
    election.retry_period = election.retry_period or 2 * SECOND
    election.leader_elect = _or(election.leader_elect, True)


def _client_connection(connection: ClientConnectionConfiguration) -> None:
    connection.content_type = connection.content_type or "application/vnd.kubernetes.protobuf"
    connection.qps = connection.qps or 50.0
    connection.burst = connection.burst or 100


def _profile(profile: KubeSchedulerProfile, in_tree: Sequence[InTreePlugin], gates: Gates) -> None:
    """The plugin sets merged with the default one, and arguments for every enabled plugin that has some."""
    defaults = [
        Plugin(name=plugin.name, weight=plugin.default_weight)
        for plugin in in_tree
        if not plugin.feature_gate or gates[plugin.feature_gate]
    ]
    custom = profile.plugins or Plugins()
    profile.plugins = Plugins(
        **{
            point: _merge(defaults if point == "multi_point" else [], getattr(custom, point))
            for point in Plugins.__struct_fields__
        }
    )
    profile.plugin_config = profile.plugin_config or []
    for one in profile.plugin_config:
        if isinstance(one.args, Typed):
            _args(one.args, gates)
    configured = {one.name for one in profile.plugin_config}
    sets: list[PluginSet] = [getattr(profile.plugins, point) for point in Plugins.__struct_fields__]
    for name in sorted({plugin.name for one in sets for plugin in one.enabled or ()} - configured):
        args = default_args(name, gates)
        if args is not None:
            profile.plugin_config.append(PluginConfig(name=name, args=args))


def default_args(name: str, gates: Gates) -> Typed | None:
    """The arguments of an in-tree plugin for which nothing is configured; None where it has none."""
    if name not in ARGS:
        return None
    args = ARGS[name](kind=f"{name}Args", api_version=API_VERSION)
    _args(args, gates)
    return args


def _merge(defaults: list[Plugin], custom: PluginSet) -> PluginSet:
    """The default list without what is disabled, one that is named again in its old place, then the rest.

    Of a plugin named twice the last replaces the default, and the first is appended: building the profile
    then reports it.
    """
    disabled = [Plugin(name=plugin.name) for plugin in custom.disabled or ()]
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
    return PluginSet(enabled=enabled or None, disabled=disabled or None)


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)]


def _resources(given: list[ResourceSpec] | None) -> list[ResourceSpec]:
    resources = given or _cpu_and_memory()
    for resource in resources:
        resource.weight = resource.weight or 1
    return resources


def _args(args: Typed, gates: Gates) -> None:
    match args:
        case DefaultPreemptionArgs():
            args.min_candidate_nodes_percentage = _or(args.min_candidate_nodes_percentage, 10)
            args.min_candidate_nodes_absolute = _or(args.min_candidate_nodes_absolute, 100)
        case InterPodAffinityArgs():
            args.hard_pod_affinity_weight = _or(args.hard_pod_affinity_weight, 1)
        case VolumeBindingArgs():
            args.bind_timeout_seconds = _or(args.bind_timeout_seconds, 600)
            if not args.shape and gates["StorageCapacityScoring"]:
                points = ((0, 10), (100, 0))
                args.shape = [UtilizationShapePoint(utilization=u, score=score) for u, score in points]
        case NodeResourcesBalancedAllocationArgs():
            args.resources = _resources(args.resources)
        case PodTopologySpreadArgs():
            args.defaulting_type = args.defaulting_type or SYSTEM_DEFAULTING
        case NodeResourcesFitArgs():
            if args.scoring_strategy is None:
                args.scoring_strategy = ScoringStrategy(type=LEAST_ALLOCATED)
            args.scoring_strategy.resources = _resources(args.scoring_strategy.resources)
        case DynamicResourcesArgs():
            if gates["DRASchedulerFilterTimeout"]:
                args.filter_timeout = _or(args.filter_timeout, 10 * SECOND)
            if gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]:
                args.binding_timeout = _or(args.binding_timeout, 600 * SECOND)
