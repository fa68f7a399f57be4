"""The plugins of each profile of a configuration (kube-scheduler v1.36, ``framework/runtime``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import wrap_int64
from moorage.engine.framework.configuration import types
from moorage.errors import ConfigurationError, ExtenderError, nearest
from moorage.kube.apiserver.go_structs import go_fields, write
from moorage.kube.go_texts import SECOND, quote
from moorage.kube.releases import DEFAULT, RELEASES, Release

from ..interface import Plugin
from .types import NodeResourcesFitArgs
from .validation import message, validate_node_resources_fit

POINTS = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
    "placementFeasible",
    "podGroupPostFilter",
)
"""The extension points, in the order in which upstream builds their lists."""

_SCORED = {"score": "score plugins", "placementScore": "placement score plugins"}
_MAX_INT64 = 2**63 - 1
_MAX_SCORE = 100
_FIT = "NodeResourcesFit"
_DEFAULT_EXTENDER_TIMEOUT = 5 * SECOND


Registry: TypeAlias = Mapping[str, "Plugin | type[Plugin]"]
"""In-tree and out-of-tree plugins by name."""


class ProfilePlugins(Struct, frozen=True):
    """The plugins of one profile, as a scheduler runs them.

    Attributes
    ----------
    scheduler_name : str
        Value of ``spec.schedulerName`` of the pods that use the profile.
    percentage_of_nodes_to_score : int or None
        Percent; 0 is adaptive, None uses the setting of the scheduler.
    plugins : dict of str to list of str
        Names of the plugins by extension point (see `POINTS`), in running order; every point has an entry.
    weights : dict of str to dict of str to int
        Weight by plugin, never 0, for ``score`` and ``placementScore``. As upstream, plugins that MultiPoint
        enables and the point disables are included.
    args : dict of str to object
        Arguments by plugin after defaulting, for all plugins that take part at some point: an args struct for
        plugins that have one (in `types.py`), the unchanged JSON value for others.
        Plugins without arguments have no entry.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    percentage_of_placements_to_score: int | None
    plugins: dict[str, tuple[str, ...]]
    weights: dict[str, dict[str, int]]
    args: dict[str, Any]


class _BuildError(Exception):
    """An error with upstream's message, without the prefix for the profile; names a missing plugin."""

    def __init__(self, message: str, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing


def build_extenders(configuration: types.KubeSchedulerConfiguration) -> list[types.Extender]:
    """Return the extenders of a configuration; a timeout of 0 becomes 5 s.

    Raises
    ------
    ConfigurationError
        With stage new: a certificate or key cannot be read, or a certificate authority is combined with
        ``insecure``.
    """
    extenders = []
    for extender in configuration.extenders or ():
        from .extender_tls import tls_context  # the library of TLS takes long to import

        try:
            tls_context(extender)
        except ExtenderError as error:
            raise ConfigurationError("new", f"couldn't build extenders: {error}") from error
        timeout = extender.http_timeout or _DEFAULT_EXTENDER_TIMEOUT
        extenders.append(msgspec.structs.replace(extender, http_timeout=timeout))
    return extenders


def build_profiles(
    configuration: types.KubeSchedulerConfiguration, registry: Registry, known: Iterable[str] = ()
) -> list[ProfilePlugins]:
    """Return the plugins of each profile: extension points, order, weights and arguments.

    Parameters
    ----------
    configuration : KubeSchedulerConfiguration
        A result of `load_configuration`.
    registry : mapping
        Plugin or plugin class by name.
    known : iterable of str, optional
        Names of other plugins that a configuration may name, for errors.

    Raises
    ------
    ConfigurationError
        With stage new and upstream's message, for unknown plugins, plugins at points that they do not extend
        or twice at one, none or two at queueSort, none at bind, two at placementGenerate, weights that
        overflow, and arguments of NodeResourcesFit.
    """
    build_extenders(configuration)
    profiles = []
    for profile, args in zip(configuration.profiles or (), _all_args(configuration), strict=True):
        try:
            profiles.append(_build(profile, args, registry))
        except _BuildError as error:
            name = profile.scheduler_name
            message = f"initializing profiles: creating profile for scheduler name {name}: {error}"
            near = nearest(error.missing, {*registry, *known}) if error.missing else ""
            raise ConfigurationError("new", message, hint=near) from None
    sorters = [
        (name, profile.args.get(name)) for profile in profiles for name in profile.plugins["queueSort"]
    ]
    for built, sorter in zip(profiles, sorters, strict=True):
        if why := queue_sort_error(built.scheduler_name, sorter, sorters[0]):
            raise ConfigurationError("new", f"initializing profiles: {why}")
    return profiles


def enabled_plugins(configuration: types.KubeSchedulerConfiguration) -> list[dict[str, Any]]:
    """Return the plugins of each profile that a scheduler has to create before `build_profiles`.

    Returns
    -------
    list of dict of str to object
        For each profile, the plugins enabled at some point, with their arguments as JSON values or None.
    """
    profiles = []
    for profile, args in zip(configuration.profiles or (), _all_args(configuration), strict=True):
        plugins = profile.plugins or types.Plugins()
        sets = [plugins.multi_point, *(_plugin_set(plugins, point) for point in POINTS)]
        names = {plugin.name for plugin_set in sets for plugin in plugin_set.enabled or ()}
        own = {name: args.get(name) for name in sorted(names)}
        profiles.append({name: write(of) if isinstance(of, types.Typed) else of for name, of in own.items()})
    return profiles


def _all_args(configuration: types.KubeSchedulerConfiguration) -> list[dict[str, Any]]:
    """Arguments by plugin, for each profile; NodeResourcesFit ignores resources of extenders."""
    ignored = [
        resource.name
        for extender in configuration.extenders or ()
        for resource in extender.managed_resources or ()
        if resource.ignored_by_scheduler
    ]
    everything = []
    for profile in configuration.profiles or ():
        args = {config.name: config.args for config in profile.plugin_config or () if config.args is not None}
        if ignored:
            fit = args.get(_FIT)
            if not isinstance(fit, NodeResourcesFitArgs):
                detail = "can't find NodeResourcesFitArgs in plugin config"
                raise ConfigurationError("new", f"couldn't build extenders: {detail}")
            args[_FIT] = msgspec.structs.replace(fit, ignored_resources=ignored)
        everything.append(args)
    return everything


def _build(profile: types.KubeSchedulerProfile, args: dict[str, Any], registry: Registry) -> ProfilePlugins:
    plugins = profile.plugins or types.Plugins()
    sets = {point: _plugin_set(plugins, point) for point in POINTS}
    multi_point = plugins.multi_point.enabled or []
    enabled = [plugin.name for plugin_set in sets.values() for plugin in plugin_set.enabled or ()]
    needed = {*enabled, *(plugin.name for plugin in multi_point)} & registry.keys()
    if _FIT in needed:
        fit = args.get(_FIT, NodeResourcesFitArgs())
        if wrong := message(validate_node_resources_fit(fit)):
            raise _BuildError(f"initializing plugin {quote(_FIT)}: {wrong}")
    lists = {point: _listed(point, sets[point], registry) for point in POINTS}
    for point in POINTS:
        lists[point] = _expanded(point, sets[point], lists[point], multi_point, registry)
    where = f"for profile with scheduler name {quote(profile.scheduler_name or '')}"
    if (sorters := len(lists["queueSort"])) != 1:
        raise _BuildError(f"only one queue sort plugin required {where}, but got {sorters}")
    if not lists["bind"]:
        raise _BuildError(f"at least one bind plugin is needed {where}")
    if len(lists["placementGenerate"]) > 1:
        raise _BuildError(f"at most one placement generate plugin is allowed {where}")
    weights = {
        point: _weights(point, [*(sets[point].enabled or ()), *multi_point], registry, what)
        for point, what in _SCORED.items()
    }
    return ProfilePlugins(
        scheduler_name=profile.scheduler_name or "",
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        percentage_of_placements_to_score=profile.percentage_of_placements_to_score,
        plugins={point: tuple(names) for point, names in lists.items()},
        weights=weights,
        args={name: args[name] for name in sorted(needed & args.keys())},
    )


def _plugin_set(plugins: types.Plugins, point: str) -> types.PluginSet:
    plugin_set: types.PluginSet = getattr(plugins, go_fields(types.Plugins)[point].attribute)
    return plugin_set


def extension_error(
    plugin: Plugin | type[Plugin] | None, name: str, point: str, listed: Sequence[str]
) -> str:
    """Return why a plugin cannot be listed at an extension point (framework.go, updatePluginList).

    Parameters
    ----------
    plugin : Plugin, type of Plugin or None
        The plugin; None if there is none of this name.
    name, point : str
        Name of the plugin and of the extension point.
    listed : sequence of str
        Names of the plugins already listed at the point.

    Returns
    -------
    str
        "" if the plugin can be listed.
    """
    interface = f"{point[0].upper()}{point[1:]}Plugin"
    if plugin is None:
        return f"{interface} {quote(name)} does not exist"
    if point not in plugin.extension_points:
        return f"plugin {quote(name)} does not extend {interface} plugin"
    return f"plugin {quote(name)} already registered as {quote(interface)}" if name in listed else ""


def _listed(point: str, plugins: types.PluginSet, registry: Registry) -> list[str]:
    """The plugins that the set of an extension point enables."""
    names: list[str] = []
    for plugin in plugins.enabled or ():
        if why := extension_error(registry.get(plugin.name), plugin.name, point, names):
            raise _BuildError(why, "" if plugin.name in registry else plugin.name)
        names.append(plugin.name)
    return names


def _expanded(
    point: str,
    plugins: types.PluginSet,
    listed: list[str],
    multi_point: Sequence[types.Plugin],
    registry: Registry,
) -> list[str]:
    """The plugins of a point in order: those of both sets, of MultiPoint, and of the point."""
    disabled = {plugin.name for plugin in plugins.disabled or ()}
    if "*" in disabled:
        return listed
    both: set[str] = set()
    only: list[str] = []
    for name in (plugin.name for plugin in multi_point):
        plugin = registry.get(name)
        if plugin is not None and (point not in plugin.extension_points or name in disabled):
            continue
        if name in listed:
            both.add(name)
        elif why := extension_error(plugin, name, point, only):
            raise _BuildError(why, name if plugin is None else "")
        else:
            only.append(name)
    first = [name for name in listed if name in both]
    return [*first, *only, *(name for name in listed if name not in both)]


def _weights(point: str, plugins: Sequence[types.Plugin], registry: Registry, what: str) -> dict[str, int]:
    """The weights of the plugins that can score.

    Of several weights the first counts, and 0 counts as 1. As upstream, the sum is checked in wrapping 64-bit
    integers, so that a negative sum is an overflow.
    """
    weights: dict[str, int] = {}
    total = 0
    for plugin in plugins:
        registered = registry.get(plugin.name)
        if registered is None or point not in registered.extension_points or plugin.name in weights:
            continue
        weights[plugin.name] = plugin.weight or 1
        score = weights[plugin.name] * _MAX_SCORE
        if score > wrap_int64(_MAX_INT64 - total):
            raise _BuildError(f"{what}: total score of Score plugins could overflow")
        total = wrap_int64(total + score)
    return weights


def queue_sort_error(profile: str, sorter: tuple[str, object], first: tuple[str, object]) -> str:
    """Return why a profile cannot share the queue of the first profile; "" if it can.

    Parameters
    ----------
    profile : str
        Scheduler name of the profile.
    sorter, first : (str, object)
        Name and arguments of the QueueSort plugin, of the profile and of the first one.

    Returns
    -------
    str
        Upstream's message.
    """
    if sorter[0] != first[0]:
        text = f"different queue sort plugins for profile {quote(profile)}"
        return f"{text}: {quote(sorter[0])}, first: {quote(first[0])}"
    return "" if sorter == first else f"different queue sort plugin args for profile {quote(profile)}"


def effective(
    configuration: types.KubeSchedulerConfiguration,
    registry: Registry,
    release: Release = RELEASES[DEFAULT],
) -> dict[str, Any]:
    """Return the effective configuration as a JSON value, in the form of the conformance vectors.

    Each profile lists the plugins of every extension point in order, for ``score`` and ``placementScore``
    with weights. Arguments are those of plugins of the registry, also of one that is not enabled.

    Parameters
    ----------
    configuration : KubeSchedulerConfiguration
        A result of `load_configuration`.
    registry : mapping
        Plugin or plugin class by name.
    release : Release, optional
        Whose extension points are listed.

    Raises
    ------
    ConfigurationError
        The extenders or profiles cannot be built; see `build_extenders` and `build_profiles`.
    """
    extenders = [write(extender) for extender in build_extenders(configuration)]
    profiles = zip(build_profiles(configuration, registry), _all_args(configuration), strict=True)
    return {
        "parallelism": configuration.parallelism,
        "percentageOfNodesToScore": configuration.percentage_of_nodes_to_score,
        **_percentage_of_placements(configuration),
        "podInitialBackoffSeconds": configuration.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": configuration.pod_max_backoff_seconds,
        "delayCacheUntilActive": configuration.delay_cache_until_active,
        "leaderElect": configuration.leader_election.leader_elect,
        **({"extenders": extenders} if extenders else {}),
        "profiles": [
            _profile(profile, {name: value for name, value in args.items() if name in registry}, release)
            for profile, args in profiles
        ],
    }


def _profile(profile: ProfilePlugins, args: dict[str, Any], release: Release) -> dict[str, Any]:
    percentage = profile.percentage_of_nodes_to_score
    args = {name: write(value) if isinstance(value, types.Typed) else value for name, value in args.items()}
    points = [point for point in sorted(POINTS) if point not in missing_points(release)]
    return {
        "schedulerName": profile.scheduler_name,
        **({} if percentage is None else {"percentageOfNodesToScore": percentage}),
        **_percentage_of_placements(profile),
        "plugins": {point: _point(profile, point) for point in points if profile.plugins[point]},
        **({"args": args} if args else {}),
    }


def _percentage_of_placements(holder: types.KubeSchedulerConfiguration | ProfilePlugins) -> dict[str, int]:
    percentage = holder.percentage_of_placements_to_score
    return {} if percentage is None else {"percentageOfPlacementsToScore": percentage}


def missing_points(release: Release) -> set[str]:
    """Return the extension points that a release does not have."""
    every = {point for release in RELEASES.values() for point in release.extension_points}
    return every.difference(release.extension_points)


def _point(profile: ProfilePlugins, point: str) -> list[Any]:
    weights = profile.weights.get(point)
    if weights is None:
        return list(profile.plugins[point])
    return [{"name": name, "weight": weights[name]} for name in profile.plugins[point]]
