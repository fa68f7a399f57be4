"""Registry: plugin factories by name (kube-scheduler v1.36, runtime/registry.go), and the plugins of a
configuration that they make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moorage.engine import framework as room
from moorage.errors import ConfigurationError, InputError, shorten

from .handle import FrameworkHandle
from .interface import BASES, Plugin, QueueSortPlugin
from .profile import Profile

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .configuration import KubeSchedulerConfiguration
    from .configuration.profile_plugins import ProfilePlugins


ENTRY_POINTS = "moorage.plugins"

# Creates a plugin from its arguments and the framework's handle; plugin classes are factories.
PluginFactory = Callable[[Mapping[str, Any] | None, "FrameworkHandle | None"], Plugin]


class Registry(dict[str, PluginFactory]):
    """Plugin factories by name."""

    def register(self, name: str, factory: PluginFactory) -> None:
        """Add a factory.

        Parameters
        ----------
        factory : PluginFactory
            Creates the plugin from arguments and handle.

        Raises
        ------
        InputError
            The name is taken.
        """
        if name in self:
            raise InputError(f"a plugin named {name} already exists")
        self[name] = factory

    def unregister(self, name: str) -> None:
        """Remove a factory.

        Raises
        ------
        InputError
            There is no factory of this name.
        """
        if name not in self:
            raise InputError(f"no plugin named {name} exists")
        del self[name]

    def merge(self, other: Mapping[str, PluginFactory]) -> None:
        """Register all factories of another registry.

        Parameters
        ----------
        other : mapping of str to PluginFactory
            The factories to add.

        Raises
        ------
        InputError
            A name is taken; factories before it have been added.
        """
        for name, factory in other.items():
            self.register(name, factory)


def installed_plugins(points: Iterable[EntryPoint] | None = None) -> Registry:
    """Return the plugins of installed packages: entry points of the group ``moorage.plugins``.

    Parameters
    ----------
    points : iterable of EntryPoint, optional
        Entry points, each a plugin class or another factory; those that are installed by default.

    Raises
    ------
    InputError
        An entry point cannot be loaded or is not callable, or its name is taken.
    """
    from importlib.metadata import entry_points  # takes long to import

    registry = Registry()
    for entry in sorted(entry_points(group=ENTRY_POINTS) if points is None else points, key=lambda e: e.name):
        source = f"{ENTRY_POINTS} entry point {entry.name}"
        try:
            factory = entry.load()
        except (ImportError, AttributeError) as error:
            raise InputError(str(error), source=source) from error
        if not callable(factory):
            raise InputError(f"{entry.value} is not callable", source=source)
        registry.register(entry.name, factory)
    return registry


# ---- build profiles ----------------------------------------------------------------------------------------
# Creates the plugins of a configuration and lists them by extension point.


def make_profiles(
    configuration: KubeSchedulerConfiguration,
    registry: Registry,
    handles: Sequence[FrameworkHandle | None] = (),
) -> list[Profile]:
    """Create the profiles of a configuration, each with plugins of its own.

    Parameters
    ----------
    registry : Registry
        Factories of in-tree and other plugins; plugins are created in its order.
    handles : sequence of FrameworkHandle or None, optional
        Handle of the plugins of each profile.

    Raises
    ------
    ConfigurationError
        With stage new and the messages of kube-scheduler v1.36 (runtime/framework.go, NewFramework).
    """
    if not configuration.profiles:
        raise ConfigurationError("new", "at least one profile is required")
    named = room.configuration.profile_plugins.enabled_plugins(configuration)
    all_of = zip(configuration.profiles or (), named, handles or [None] * len(named), strict=True)
    instances = [
        _make(registry, args, config.scheduler_name or "", handle) for config, args, handle in all_of
    ]
    every = {name: plugin for by_name in instances for name, plugin in by_name.items()}
    points = room.configuration.profile_plugins.build_profiles(configuration, every, registry)
    percentage = configuration.percentage_of_placements_to_score or 0
    return [_profile(plugins, config, percentage) for plugins, config in zip(points, instances, strict=True)]


def _make(
    registry: Registry, args: Mapping[str, Any], scheduler_name: str, handle: FrameworkHandle | None
) -> dict[str, Plugin]:
    """The plugins that a profile needs, by registered name."""
    plugins = {}
    for name, factory in registry.items():
        if name not in args:
            continue
        try:
            plugins[name] = factory(args[name], handle)
        except Exception as error:  # a factory may raise anything
            text = f"initializing profiles: creating profile for scheduler name {scheduler_name}: "
            raise ConfigurationError("new", f'{text}initializing plugin "{name}": {error}') from error
    return plugins


def _profile(plugins: ProfilePlugins, instances: Mapping[str, Plugin], percentage: int) -> Profile:
    """Return a profile; `percentage` of placements to score is that of the scheduler."""
    own = plugins.percentage_of_placements_to_score
    scorers = plugins.plugins["score"]
    for name in scorers:
        if instances[name].name != name:
            raise ConfigurationError(
                "new", f'score plugin "{instances[name].name}" is not configured with weight'
            )
    used = {name for names in plugins.plugins.values() for name in names}
    return Profile(
        tuple(plugin for name, plugin in instances.items() if name in used),
        scheduler_name=plugins.scheduler_name,
        percentage_of_nodes_to_score=plugins.percentage_of_nodes_to_score,
        percentage_of_placements_to_score=percentage if own is None else own,
        weight_overrides=plugins.weights["score"],
        placement_weights=plugins.weights["placementScore"],
        points={point: [instances[name].name for name in plugins.plugins[point]] for point in BASES.values()},
    )


def check_profiles(profiles: Sequence[Profile]) -> list[Profile]:
    """Check that profiles can share a scheduler.

    Their scheduler names must differ, and their QueueSort plugins must be equal.

    Returns
    -------
    list of Profile
        The profiles, unchanged.

    Raises
    ------
    InputError
        With upstream's message (kube-scheduler v1.36, profile/profile.go).
    TypeError
        They are no sequence of Profile.
    """
    if not isinstance(profiles, Sequence) or not all(isinstance(profile, Profile) for profile in profiles):
        raise TypeError(f"profiles are a sequence of Profile, not {shorten(repr(profiles))}")
    if not profiles:
        raise InputError("at least one profile is required")
    names: set[str] = set()
    first = _sorter(profiles[0])
    for profile in profiles:
        name = profile.scheduler_name
        if not name:
            raise InputError("scheduler name is needed")
        if not profile.plugins:
            raise InputError(f'plugins required for profile with scheduler name "{name}"')
        if (sorter := _sorter(profile)) != first:
            raise InputError(room.configuration.profile_plugins.queue_sort_error(name, sorter, first))
        if name in names:
            raise InputError(f'duplicate profile with scheduler name "{name}"')
        names.add(name)
    return list(profiles)


def _sorter(profile: Profile) -> tuple[str, object]:
    """The names of a profile's QueueSort plugins, of which there must be one, and their arguments."""
    plugins = profile.at(QueueSortPlugin)
    return " ".join(plugin.name for plugin in plugins), [plugin.args for plugin in plugins]
