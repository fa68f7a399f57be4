"""Loading a configuration: decoded, defaulted and validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from moorage.errors import InputError
from moorage.objects.read.files import read_file, source_name

from .defaults import InTreePlugin, set_defaults
from .errors import ConfigurationError
from .feature_gates import feature_gates as all_gates
from .reading.reading import read
from .types import KubeSchedulerConfiguration
from .validation import validate


def load_configuration(
    source: str | PathLike[str] | bytes | Mapping[str, Any],
    in_tree: Sequence[InTreePlugin],
    *,
    feature_gates: Mapping[str, bool] | None = None,
    name: str = "",
) -> KubeSchedulerConfiguration:
    """Read a ``kubescheduler.config.k8s.io/v1`` configuration as kube-scheduler v1.36 does.

    Parameters
    ----------
    source : str, path, bytes or mapping
        A file's path (``"-"`` is standard input), a text as bytes (YAML, or JSON if it starts with a brace),
        or a JSON value. Of several YAML documents the first counts.
    in_tree : sequence
        The in-tree plugins in the order of the default MultiPoint list (`moorage.plugins.registry.IN_TREE`).
    feature_gates : mapping, optional
        Gate name to whether it is on, on top of the defaults of v1.36.
    name : str, optional
        What errors call the source; its path by default.

    Returns
    -------
    KubeSchedulerConfiguration
        With upstream's defaults, valid. What it comes to with a registry: `build_profiles`, `effective`.

    Raises
    ------
    ConfigurationError
        Of stage load or validate, with upstream's text.
    InputError
        For a file that cannot be read, or an unknown feature gate.
    """
    try:
        gates = all_gates(feature_gates)
    except ValueError as error:
        raise InputError(str(error), path="featureGates") from None
    if isinstance(source, str | PathLike):
        file = fspath(source)
        name = name or source_name(file)
        source = read_file(file)
    if isinstance(source, bytes):
        source = _text(source, name)
    configuration = read(source, name, gates)
    set_defaults(configuration, in_tree, gates)
    if wrong := validate(configuration, gates):
        raise ConfigurationError("validate", wrong, source=name)
    return configuration


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"yaml: offset {error.start}: invalid UTF-8"
        raise ConfigurationError("load", message, source=name) from None
