"""Reads a configuration: decodes it, sets defaults, and validates it.

Decoding and its errors follow apimachinery v0.36, ``runtime/serializer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

from moorage.errors import ConfigurationError, InputError, located
from moorage.kube.go_texts import go_json
from moorage.kube.read.files import read_file, source_name
from moorage.kube.releases import FeatureGates, Release
from moorage.kube.releases import feature_gates as all_gates

from ..plugin.interface import Plugin
from .args import ARGS
from .defaults import set_defaults
from .go_structs import DecodeError, GoType, decode, decode_leniently, go_fields, parse
from .profile_plugins import missing_points
from .types import (
    API_VERSION,
    GROUP,
    VERSION,
    KubeSchedulerConfiguration,
    PluginConfig,
    Plugins,
    PluginSet,
    Typed,
)
from .validation import validate


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
    if wrong := validate(configuration, gates):
        raise ConfigurationError("validate", wrong, source=name)
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
        key: one
        for key, one in (data.items() if isinstance(data, dict) else ())
        if isinstance(one, str) and f"kind: {KubeSchedulerConfiguration.__name__}" in one.replace('"', "")
    }
    if len(within) > 1:
        raise DecodeError(
            f"this ConfigMap has several configurations ({', '.join(sorted(within))}); give one"
        )
    return next(iter(within.values()), text)


def _read(source: str | Mapping[str, Any], gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Decode YAML or JSON text, or a JSON value.

    The field percentageOfPlacementsToScore, which v1.37 does not have, is accepted where it says what v1.37
    does: that all placements are tried.
    """
    value, strict = _parse(source) if isinstance(source, str) else (source, [])
    text = source if isinstance(source, str) else None
    obj, kind, more = _decode(value, text, _Kind("", "", ""), gates.release)
    strict += more
    if not isinstance(obj, KubeSchedulerConfiguration):
        message = f"couldn't decode as KubeSchedulerConfiguration, got {kind.api_version}, Kind={kind.kind}: "
        raise DecodeError(_strict(strict) or message)
    percentage = obj.percentage_of_placements_to_score
    if percentage is not None and not (percentage == 100 and gates["TopologyAwareWorkloadScheduling"]):
        strict.append('unknown field "percentageOfPlacementsToScore"')
    absent = {name: go_fields(Plugins)[name].attribute for name in missing_points(gates.release)}
    for i, profile in enumerate(obj.profiles or ()):
        plugins = profile.plugins or Plugins()
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
    from moorage.kube.read.yaml_reader import read_first

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
    kind = _with_defaults(_header(value), default)
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


def _header(value: Any) -> _Kind:
    """Kind and apiVersion; only these two field names are case-insensitive."""
    try:
        header: Typed = decode_leniently(value, _HEADER)
    except DecodeError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from None
    return _Kind(*_group_version(header.api_version), header.kind)


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
