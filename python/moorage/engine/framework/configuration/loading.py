"""Reads a configuration: decodes it, sets defaults, and validates it.

Decoding and its errors follow apimachinery v0.36, ``runtime/serializer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypeVar

from moorage.engine.framework.configuration import types
from moorage.errors import ConfigurationError, InputError, located
from moorage.kube.apiserver.go_structs import DecodeError, GoType, decode, decode_leniently, go_fields, parse
from moorage.kube.go_texts import SECOND, go_json
from moorage.kube.releases import FeatureGates, Release
from moorage.kube.releases import feature_gates as all_gates
from moorage.lazy import NamedTuple

from .. import configuration as room
from ..interface import Plugin
from ..waiting_pods import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS
from .types import (
    API_VERSION,
    ARGS,
    GROUP,
    VERSION,
    KubeSchedulerConfiguration,
    PluginConfig,
    Plugins,
    PluginSet,
    Typed,
)

# ---- defaults ----------------------------------------------------------------------------------------------
# Upstream's defaults for missing fields of a configuration (kube-scheduler v1.36, ``apis/config/v1``).

Gates = FeatureGates
T = TypeVar("T")


def set_defaults(
    configuration: types.KubeSchedulerConfiguration, in_tree: Sequence[type[Plugin]], gates: Gates
) -> None:
    """Set the defaults of a configuration, in place.

    Parameters
    ----------
    in_tree : sequence of type
        The in-tree plugins, in the order of the default MultiPoint list.
    """
    config = configuration
    config.parallelism = _or(config.parallelism, 16)
    config.profiles = config.profiles or [types.KubeSchedulerProfile()]
    if len(config.profiles) == 1:
        config.profiles[0].scheduler_name = _or(config.profiles[0].scheduler_name, "default-scheduler")
    for profile in config.profiles:
        _profile(profile, in_tree, gates)
    config.percentage_of_nodes_to_score = _or(config.percentage_of_nodes_to_score, 0)
    if gates.release.placements_are_sampled and gates["TopologyAwareWorkloadScheduling"]:
        config.percentage_of_placements_to_score = _or(config.percentage_of_placements_to_score, 0)
    _leader_election(config.leader_election)
    connection = config.client_connection
    connection.content_type = connection.content_type or "application/vnd.kubernetes.protobuf"
    connection.qps, connection.burst = connection.qps or 50.0, connection.burst or 100
    config.pod_initial_backoff_seconds = _or(config.pod_initial_backoff_seconds, INITIAL_BACKOFF_SECONDS)
    config.pod_max_backoff_seconds = _or(config.pod_max_backoff_seconds, MAX_BACKOFF_SECONDS)
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


def _profile(profile: types.KubeSchedulerProfile, in_tree: Sequence[type[Plugin]], gates: Gates) -> None:
    """Merge the plugin sets with the defaults, and add the arguments of enabled plugins."""
    defaults = [
        types.Plugin(name=plugin.name, weight=plugin.default_weight)
        for plugin in in_tree
        if not plugin.feature_gate or gates[plugin.feature_gate]
    ]
    custom = profile.plugins or types.Plugins()
    sets = {point: _merge([], getattr(custom, point)) for point in types.Plugins.__struct_fields__}
    if not gates["GenericWorkload"]:  # groups alone need it there
        off = [types.Plugin(name=plugin.name) for plugin in in_tree if plugin.reserves_for_groups]
        sets["reserve"].disabled = [*(sets["reserve"].disabled or ()), *off] or None
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
    """Return the default arguments of an in-tree plugin; None for a plugin without arguments."""
    if name not in types.ARGS:
        return None
    args = types.ARGS[name](kind=f"{name}Args", api_version=types.API_VERSION)
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


def _resources(configured: list[types.ResourceSpec] | None) -> list[types.ResourceSpec]:
    resources = configured or [types.ResourceSpec(name=name) for name in ("cpu", "memory")]
    for resource in resources:
        resource.weight = resource.weight or 1
    return resources


def _args(args: types.Typed, gates: Gates) -> None:
    match args:
        case types.DefaultPreemptionArgs():
            args.min_candidate_nodes_percentage = _or(args.min_candidate_nodes_percentage, 10)
            args.min_candidate_nodes_absolute = _or(args.min_candidate_nodes_absolute, 100)
        case types.InterPodAffinityArgs():
            args.hard_pod_affinity_weight = _or(args.hard_pod_affinity_weight, 1)
        case types.VolumeBindingArgs():
            args.bind_timeout_seconds = _or(args.bind_timeout_seconds, 600)
            if not args.shape and gates["StorageCapacityScoring"]:
                point = types.UtilizationShapePoint
                args.shape = [point(utilization=0, score=10), point(utilization=100, score=0)]
        case types.NodeResourcesBalancedAllocationArgs():
            args.resources = _resources(args.resources)
        case types.PodTopologySpreadArgs():
            args.defaulting_type = args.defaulting_type or types.SYSTEM_DEFAULTING
        case types.NodeResourcesFitArgs():
            if args.scoring_strategy is None:
                args.scoring_strategy = types.ScoringStrategy(type=types.LEAST_ALLOCATED)
            args.scoring_strategy.resources = _resources(args.scoring_strategy.resources)
        case types.DynamicResourcesArgs():
            if gates["DRASchedulerFilterTimeout"]:
                args.filter_timeout = _or(args.filter_timeout, 10 * SECOND)
            if gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]:
                args.binding_timeout = _or(args.binding_timeout, 600 * SECOND)


# ---- load configuration ------------------------------------------------------------------------------------


def load_configuration(
    source: str | PathLike[str] | bytes | Mapping[str, Any],
    in_tree: Sequence[type[Plugin]],
    *,
    feature_gates: Mapping[str, bool] | None = None,
    name: str = "",
) -> KubeSchedulerConfiguration:
    """Read a ``kubescheduler.config.k8s.io/v1`` configuration as kube-scheduler v1.36 does.

    Parameters
    ----------
    source : str, path, bytes or mapping
        Path of a file (``"-"`` is standard input), a text as bytes (YAML, or JSON if it starts with a brace),
        or a JSON value. Of several YAML documents the first one is read. A ConfigMap stands for the
        configuration in its data.
    in_tree : sequence
        The in-tree plugins in the order of the default MultiPoint list (`IN_TREE` of the registry).
    feature_gates : mapping, optional
        Value by gate, on top of the defaults; those of another release are made by
        `moorage.kube.releases.feature_gates`.
    name : str, optional
        Name of the source in errors; its path by default.

    Returns
    -------
    KubeSchedulerConfiguration
        A valid configuration with upstream's defaults, for `build_profiles` and `effective`.

    Raises
    ------
    ConfigurationError
        With stage load or validate and upstream's message.
    InputError
        A file cannot be read, or a feature gate is unknown.
    """
    with located(ValueError, path="featureGates"):
        gates = all_gates(feature_gates)
    if isinstance(source, str | PathLike):
        from moorage.kube.read.files import (  # a program without files has no use for it
            read_file,
            source_name,
        )

        file = fspath(source)
        name = name or source_name(file)
        source = read_file(file)
    try:
        text = _of_config_map(source.decode()) if isinstance(source, bytes) else source
        configuration = _read(text, gates)
    except UnicodeDecodeError as error:
        message = f"yaml: offset {error.start}: invalid UTF-8"
        raise ConfigurationError("load", message, source=name) from None
    except DecodeError as error:
        raise ConfigurationError("load", str(error), source=name, path=error.path) from None
    set_defaults(configuration, in_tree, gates)
    if wrong := room.validation.validate(configuration, gates):
        names = [profile.scheduler_name for profile in configuration.profiles or ()]
        twice = next((each for each in names if each and names.count(each) > 1), None)
        hint = f'; "{twice}" is the schedulerName of two profiles' if twice else ""
        raise ConfigurationError("validate", wrong, source=name, hint=hint)
    return configuration


_STRUCTS: tuple[type[Typed], ...] = KubeSchedulerConfiguration, *ARGS.values()
_KINDS = {struct.__name__: struct for struct in _STRUCTS}


class _Header(Typed, kw_only=True):
    """Kind and apiVersion of a JSON object."""


_Header.__name__ = ""  # the struct is anonymous in Go, and error messages print no name
_HEADER = GoType(
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }',
    "struct",
    struct=_Header,
)


class _Kind(NamedTuple):
    """Group, version and kind of an object; any may be empty."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _of_config_map(text: str) -> str:
    """Return the configuration in the data of a ConfigMap; any other text as it is."""
    if "ConfigMap" not in text or KubeSchedulerConfiguration.__name__ not in text:
        return text
    value, _ = _parse(text)
    if not isinstance(value, dict) or (value.get("kind"), value.get("apiVersion")) != ("ConfigMap", "v1"):
        return text
    data = value.get("data")
    within = {
        key: content
        for key, content in (data.items() if isinstance(data, dict) else ())
        if isinstance(content, str)
        and f"kind: {KubeSchedulerConfiguration.__name__}" in content.replace('"', "")
    }
    if len(within) > 1:
        raise DecodeError(
            f"this ConfigMap has several configurations ({', '.join(sorted(within))}); give one"
        )
    return next(iter(within.values()), text)


def _read(source: str | Mapping[str, Any], gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Decode YAML or JSON text, or a JSON value.

    The field percentageOfPlacementsToScore is accepted up to v1.37, which does not have it, where it says
    what these releases do: that all placements are tried.
    """
    value, strict = _parse(source) if isinstance(source, str) else (source, [])
    text = source if isinstance(source, str) else None
    obj, kind, more = _decode(value, text, _Kind("", "", ""), gates.release)
    strict += more
    if not isinstance(obj, KubeSchedulerConfiguration):
        message = f"couldn't decode as KubeSchedulerConfiguration, got {kind.api_version}, Kind={kind.kind}: "
        raise DecodeError(_strict(strict) or message)
    percentage, is_known = obj.percentage_of_placements_to_score, gates.release.placements_are_sampled
    if percentage is not None and not is_known:
        if not (percentage == 100 and gates["TopologyAwareWorkloadScheduling"]):
            strict.append('unknown field "percentageOfPlacementsToScore"')
        obj.percentage_of_placements_to_score = None
    absent = {
        name: go_fields(Plugins)[name].attribute
        for name in room.profile_plugins.missing_points(gates.release)
    }
    for i, profile in enumerate(obj.profiles or ()):
        plugins = profile.plugins or Plugins()
        if profile.percentage_of_placements_to_score is not None and not is_known:
            strict.append(f'unknown field "profiles[{i}].percentageOfPlacementsToScore"')
        for name, attribute in sorted(absent.items()):
            if getattr(plugins, attribute) != PluginSet():
                strict.append(f'unknown field "profiles[{i}].plugins.{name}"')
        for j, plugin_config in enumerate(profile.plugin_config or ()):
            where = f".profiles[{i}].pluginConfig[{j}]"
            try:
                wrong = _decode_args(plugin_config, gates.release)
            except DecodeError as error:
                path = f"{where[1:]}.args.{error.path}" if error.path else ""
                raise DecodeError(f"decoding {where}: {error}", path) from None
            if wrong:
                args = f"decoding args for plugin {plugin_config.name}: {_strict(wrong)}"
                strict.append(f"decoding {where}: {_strict([args])}")
    if strict:
        raise DecodeError(_strict(strict))
    return obj


def _strict(errors: list[str]) -> str:
    return f"strict decoding error: {', '.join(errors)}" if errors else ""


def _parse(text: str) -> tuple[Any, list[str]]:
    """The JSON value of a text and its duplicate keys; a text that starts with a brace is JSON."""
    if text.lstrip().startswith("{"):
        try:
            return parse(text), []
        except DecodeError as error:
            raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from None
    from moorage.kube.read.documents import read_first

    try:
        value, duplicates = read_first(text, "yaml")
    except InputError as error:
        line = error.source.partition(":")[2]
        where = f"line {line}: " if line else ""
        raise DecodeError(f"yaml: {where}{error.message.removeprefix('invalid YAML: ')}") from None
    if not duplicates:
        return value, []
    lines = "".join(f'\n  line {each.line}: key "{each.path[-1]}" already set in map' for each in duplicates)
    return value, [f"yaml: unmarshal errors:{lines}"]


def _decode(value: Any, text: str | None, default: _Kind, release: Release) -> tuple[Typed, _Kind, list[str]]:
    """Decode an object by its kind; missing parts of the kind are taken from `default`."""
    try:  # only the names of these two fields are case-insensitive
        header: Typed = decode_leniently(value, _HEADER)
    except DecodeError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from None
    kind = _with_defaults(_Kind(*_group_version(header.api_version), header.kind), default)
    if not kind.kind or not kind.version:
        what = "apiVersion" if kind.kind else "Kind"
        raise DecodeError(f"Object '{what}' is missing in '{go_json(value) if text is None else text}'")
    struct = _KINDS.get(kind.kind) if (kind.group, kind.version) == (GROUP, VERSION) else None
    if struct is None:
        version = f'version "{kind.api_version}" in scheme "{release.scheme}"'
        raise DecodeError(f'no kind "{kind.kind}" is registered for {version}')
    obj, strict = decode(value, struct)
    obj.kind, obj.api_version = kind.kind, API_VERSION
    return obj, kind, strict


def _with_defaults(kind: _Kind, default: _Kind) -> _Kind:
    name = kind.kind or default.kind
    if not kind.version and kind.group in ("", default.group):
        return _Kind(default.group, default.version, name)
    return _Kind(kind.group, kind.version, name)


def _group_version(text: str) -> tuple[str, str]:
    if text in ("", "/"):
        return "", ""
    if text.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {text}")
    group, _, version = text.rpartition("/")
    return group, version


def _decode_args(plugin_config: PluginConfig, release: Release) -> list[str]:
    """Decode the arguments of a plugin with an args struct, in place; returns the strict errors."""
    name = plugin_config.name
    if name not in ARGS:
        return []
    expected = _Kind(GROUP, VERSION, f"{name}Args")
    try:
        args, kind, strict = _decode(plugin_config.args, None, expected, release)
    except DecodeError as error:
        raise DecodeError(f"decoding args for plugin {name}: {error}", error.path) from None
    if kind.group_kind != expected.group_kind:
        types = f"{expected.group_kind}, got {kind.group_kind}"
        raise DecodeError(f"args for plugin {name} were not of type {types}")
    plugin_config.args = args
    return strict
