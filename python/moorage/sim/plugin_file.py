"""The plugins that a configuration can name in commands and sweeps: the policies of the literature, those of
installed packages, and those of a file.
"""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from moorage.engine.framework import Registry, installed_plugins
from moorage.engine.framework.plugin_registry import PluginFactory
from moorage.engine.plugins.registry import all_plugins
from moorage.errors import InputError, located

from .scheduling_policies import policies

VARIABLE = "registry"


class PluginFile(Registry):
    """The plugins of a Python file. Another process that gets it runs the file itself.

    Attributes
    ----------
    digest : str
        Of the contents of the file.
    """

    path: str
    digest: str

    def __reduce__(self) -> tuple[Any, ...]:
        return read_plugin_file, (self.path,)


@cache
def read_plugin_file(path: str) -> PluginFile:
    """Run a Python file, and return the plugins of its variable ``registry``. A file is run once.

    Raises
    ------
    InputError
        The file cannot be read or run, has no such variable, or names a plugin that is there already.
    """
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        plugins: Any = runpy.run_path(path).get(VARIABLE)
    except (Exception, SystemExit) as error:  # a file may end with the exit of a program
        hint = f"; expected Python with plugins in its variable {VARIABLE}" * isinstance(error, SyntaxError)
        raise InputError(f"{type(error).__name__}: {error}{hint}", source=path) from error
    if not isinstance(plugins, Registry) or not plugins:
        raise InputError("must be a moorage.Registry with plugins", source=path, path=VARIABLE)
    with located(source=path, path=VARIABLE):
        all_plugins(known_plugins(plugins))
    file = PluginFile(plugins)
    file.path, file.digest = str(Path(path).resolve()), digest
    return file


def known_plugins(given: Mapping[str, PluginFactory]) -> Registry:
    """Return the plugins beside those in the tree that a configuration can name.

    Raises
    ------
    InputError
        A name is taken.
    """
    registry = policies()
    registry.merge(installed_plugins())
    registry.merge(given)
    return registry


def configuration_with(plugins: Mapping[str, PluginFactory]) -> dict[str, Any]:
    """Return a configuration whose profile is kube-scheduler's with all of these plugins."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    enabled = [
        {"name": name, "weight": getattr(factory, "default_weight", 0)} for name, factory in plugins.items()
    ]
    return head | {"profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}
