"""Building profiles: from names, weights and arguments to plugins.

Checks, texts and order of kube-scheduler v1.36, runtime/framework.go NewFramework and profile/profile.go.
Wrong input is an InputError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moorage.errors import InputError

from .handle import FrameworkHandle
from .interface import BIND, MAX_NODE_SCORE, QUEUE_SORT, SCORE, Plugin
from .profile import Profile, interface_name
from .registry import Registry

MAX_INT64 = 2**63 - 1
# The order in which upstream looks at the extension points.
CHECKED = (
    *("preFilter", "filter", "postFilter", "reserve", "preScore", "score", "preBind", "bind", "postBind"),
    *("permit", "preEnqueue", "queueSort"),
)


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins of one extension point.

    Attributes
    ----------
    enabled : sequence of (name, weight)
        In order; the weight counts at Score only, and 0 stands for none given.
    disabled : sequence of str
        Names that MultiPoint does not enable here; ``*`` for all.
    """

    enabled: Sequence[tuple[str, int]] = ()
    disabled: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """A profile by names: KubeSchedulerProfile with defaults applied.

    Attributes
    ----------
    points : mapping of str to PluginSet
        By extension point.
    multi_point : PluginSet
        Plugins for all the points that they extend.
    plugin_config : sequence of (name, args)
        Arguments; of a plugin that nobody needs they are ignored.
    settings : mapping
        Other attributes of `Profile`.
    """

    scheduler_name: str = "default-scheduler"
    points: Mapping[str, PluginSet] = field(default_factory=dict)
    multi_point: PluginSet = PluginSet()
    plugin_config: Sequence[tuple[str, Mapping[str, Any] | None]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def build_profile(
    config: ProfileConfig, registry: Registry, handle: FrameworkHandle | None = None
) -> Profile:
    """Make the plugins that are enabled somewhere, in the registry's order, and put them in order per point.

    At a point come first the plugins listed there that MultiPoint enables too, then the others of MultiPoint,
    then the rest of the list.
    """
    args = _args_by_name(config)
    made = _make(_needed(config), args, registry, handle)
    points: dict[str, list[str]] = {}
    for point in CHECKED:
        names = [name for name, _ in config.points.get(point, PluginSet()).enabled]
        _check_list(point, names, made)
        points[point] = names
    _expand(config, made, points)
    _check_counts(config.scheduler_name, points)
    by_weight = _weights(config, points[SCORE], made)
    named = {plugin.name: plugin for plugin in made.values()}
    for name in points[SCORE]:
        if made[name].name != name:
            raise InputError(f'score plugin "{made[name].name}" is not configured with weight')
    return Profile(
        tuple(named.values()),
        scheduler_name=config.scheduler_name,
        weight_overrides=by_weight,
        points={point: [made[name].name for name in names] for point, names in points.items()},
        **config.settings,
    )


def _args_by_name(config: ProfileConfig) -> dict[str, Mapping[str, Any] | None]:
    args: dict[str, Mapping[str, Any] | None] = {}
    for name, value in config.plugin_config:
        if name in args:
            raise InputError(f"repeated config for plugin {name}")
        args[name] = value
    return args


def _needed(config: ProfileConfig) -> set[str]:
    sets = (config.multi_point, *config.points.values())
    return {name for plugins in sets for name, _ in plugins.enabled}


def _make(
    needed: set[str],
    args: Mapping[str, Mapping[str, Any] | None],
    registry: Registry,
    handle: FrameworkHandle | None,
) -> dict[str, Plugin]:
    made = {}
    for name, factory in registry.items():
        if name in needed:
            try:
                made[name] = factory(args.get(name), handle)
            except Exception as error:  # a factory may raise anything
                raise InputError(f'initializing plugin "{name}": {error}') from error
    return made


def _check_list(point: str, names: Sequence[str], made: Mapping[str, Plugin]) -> None:
    interface = interface_name(point)
    for at, name in enumerate(names):
        if name not in made:
            raise InputError(f'{interface} "{name}" does not exist')
        if point not in made[name].extension_points:
            raise InputError(f'plugin "{name}" does not extend {interface} plugin')
        if name in names[:at]:
            raise InputError(f'plugin "{name}" already registered as "{interface}"')


def _expand(config: ProfileConfig, made: Mapping[str, Plugin], points: dict[str, list[str]]) -> None:
    """Add MultiPoint's plugins to each point that they extend."""
    everywhere = [name for name, _ in config.multi_point.enabled]
    for point in CHECKED:
        disabled = config.points.get(point, PluginSet()).disabled
        wanted: list[str] = []
        for name in everywhere:
            if name not in made:
                raise InputError(f'{interface_name(point)} "{name}" does not exist')
            if point not in made[name].extension_points or "*" in disabled or name in disabled:
                continue
            if name in wanted:
                raise InputError(f'plugin "{name}" already registered as "{interface_name(point)}"')
            wanted.append(name)
        listed = points[point]
        points[point] = [
            *(name for name in listed if name in wanted),
            *(name for name in wanted if name not in listed),
            *(name for name in listed if name not in wanted),
        ]


def _check_counts(scheduler_name: str, points: Mapping[str, Sequence[str]]) -> None:
    sorters = len(points[QUEUE_SORT])
    profile = f'profile with scheduler name "{scheduler_name}"'
    if sorters != 1:
        raise InputError(f"only one queue sort plugin required for {profile}, but got {sorters}")
    if not points[BIND]:
        raise InputError(f"at least one bind plugin is needed for {profile}")


def _weights(config: ProfileConfig, scorers: Sequence[str], made: Mapping[str, Plugin]) -> dict[str, int]:
    """The weight of each score plugin: that of the Score list, else that of MultiPoint; 0 counts as 1."""
    given = dict(config.multi_point.enabled) | dict(config.points.get(SCORE, PluginSet()).enabled)
    weights = {name: given[name] or 1 for name in scorers}
    total = 0
    for weight in weights.values():
        if weight * MAX_NODE_SCORE > MAX_INT64 - total:
            raise InputError("score plugins: total score of Score plugins could overflow")
        total += weight * MAX_NODE_SCORE
    return weights


def build_profiles(
    configs: Sequence[ProfileConfig], registry: Registry, handle: FrameworkHandle | None = None
) -> list[Profile]:
    """Build several profiles and check them together."""
    profiles = []
    for config in configs:
        try:
            profiles.append(build_profile(config, registry, handle))
        except InputError as error:
            raise InputError(
                f"creating profile for scheduler name {config.scheduler_name}: {error}"
            ) from error
    return check_profiles(profiles)


def check_profiles(profiles: Sequence[Profile]) -> list[Profile]:
    """The profiles, which must differ in their scheduler names and agree in how the queue is sorted."""
    if not profiles:
        raise InputError("at least one profile is required")
    seen: set[str] = set()
    first = profiles[0].at(QUEUE_SORT)
    for profile in profiles:
        name = profile.scheduler_name
        if not name:
            raise InputError("scheduler name is needed")
        if not profile.plugins:
            raise InputError(f'plugins required for profile with scheduler name "{name}"')
        sorters = profile.at(QUEUE_SORT)
        ours, theirs = [p.name for p in sorters], [p.name for p in first]
        if ours != theirs:
            raise InputError(
                f'different queue sort plugins for profile "{name}": "{" ".join(ours)}", '
                f'first: "{" ".join(theirs)}"'
            )
        if [p.args for p in sorters] != [p.args for p in first]:
            raise InputError(f'different queue sort plugin args for profile "{name}"')
        if name in seen:
            raise InputError(f'duplicate profile with scheduler name "{name}"')
        seen.add(name)
    return list(profiles)
