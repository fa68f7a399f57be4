"""Registry: plugin factories by name (kube-scheduler v1.36, runtime/registry.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moorage.errors import InputError

from ..plugin.handle import FrameworkHandle
from ..plugin.interface import Plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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


def installed_plugins(found: Iterable[EntryPoint] | None = None) -> Registry:
    """Return the plugins of installed packages: entry points of the group ``moorage.plugins``.

    Parameters
    ----------
    found : iterable of EntryPoint, optional
        Entry points, each a plugin class or another factory; those that are installed by default.

    Raises
    ------
    InputError
        An entry point cannot be loaded or is not callable, or its name is taken.
    """
    from importlib.metadata import entry_points  # takes long to import

    registry = Registry()
    for entry in sorted(entry_points(group=ENTRY_POINTS) if found is None else found, key=lambda e: e.name):
        source = f"{ENTRY_POINTS} entry point {entry.name}"
        try:
            factory = entry.load()
        except (ImportError, AttributeError) as error:
            raise InputError(str(error), source=source) from error
        if not callable(factory):
            raise InputError(f"{entry.value} is not callable", source=source)
        registry.register(entry.name, factory)
    return registry
