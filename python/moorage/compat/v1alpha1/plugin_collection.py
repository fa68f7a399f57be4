"""The collection of available plugins."""

from __future__ import annotations

from .plugin_interface import PluginFactory
from .v1alpha1_status import FrameworkError


class Registry(dict[str, PluginFactory]):
    """Factories of all available plugins by name; the framework builds each of them, in this order."""

    def Register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin; FrameworkError where the name is taken."""
        if name in self:
            raise FrameworkError(f"a plugin named {name} already exists")
        self[name] = factory

    def Unregister(self, name: str) -> None:
        """Remove a plugin; FrameworkError where there is none of this name."""
        if name not in self:
            raise FrameworkError(f"no plugin named {name} exists")
        del self[name]


def NewRegistry() -> Registry:
    """The registry of the default plugins, of which there were none yet."""
    return Registry()
