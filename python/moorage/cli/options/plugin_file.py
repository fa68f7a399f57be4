"""Python plugins of a file, for a scheduler of a real cluster."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

from moorage.errors import InputError, located

if TYPE_CHECKING:
    from moorage.engine.framework.plugin_registry import Registry

VARIABLE = "registry"


def read_plugin_file(path: str) -> Registry:
    """Run a Python file, and return the plugins of its variable ``registry``.

    Raises
    ------
    InputError
        The file cannot be read or run, has no such variable, or names a plugin that is in the tree.
    """
    from moorage.engine.framework.plugin_registry import Registry
    from moorage.engine.plugins.registry import all_plugins

    try:
        found: Any = runpy.run_path(path).get(VARIABLE)
    except Exception as error:
        raise InputError(f"{type(error).__name__}: {error}", source=path) from error
    if not isinstance(found, Registry) or not found:
        raise InputError("must be a moorage.Registry with plugins", source=path, path=VARIABLE)
    with located(source=path, path=VARIABLE):
        all_plugins(found)
    return found


def configuration_with(registry: Registry) -> dict[str, Any]:
    """Return a configuration whose profile is kube-scheduler's with all plugins of a registry."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    enabled = [{"name": name} for name in registry]
    return head | {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
