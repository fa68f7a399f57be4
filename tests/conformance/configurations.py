"""Checks of ``configurations.jsonl.gz``: which configurations are accepted, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.errors import ConfigurationError
from moorage.kube.releases import DEFAULT, default_gates, release_named
from tests.doors.engine import effective, in_tree, load_configuration

from .compare import differences, short
from .vectors import MalformedError

Json = dict[str, Any]

# Texts of the general YAML and JSON libraries about what they cannot parse at all: our parsers know less of
# the place, so only stage and these words are compared. All other texts of stage load are compared whole.
_SYNTAX = ("yaml: ", "couldn't get version/kind; json parse error: invalid character ")


def outcome(text: str, version: str = DEFAULT) -> Json:
    """What becomes of a configuration, in the form of a line of the vectors, without name and text."""
    release = release_named(version)
    plugins = in_tree(release)
    registry = {plugin.name: plugin for plugin in plugins}
    try:
        configuration = load_configuration(text.encode(), plugins, feature_gates=default_gates(release))
        return {
            "ok": True,
            "effective": effective(configuration, registry, release),
        }
    except ConfigurationError as error:
        return {"ok": False, "stage": error.stage, "error": error.message}


def check(line: Json) -> Iterator[str]:
    """The differences between a line and what becomes of its configuration; every field counts."""
    if not isinstance(line.get("name"), str) or not isinstance(line.get("yaml"), str):
        raise MalformedError("name and yaml must be strings")
    expected = {key: value for key, value in line.items() if key not in ("name", "yaml", "release")}
    got = outcome(line["yaml"], line.get("release", DEFAULT))
    if {expected.get("stage"), got.get("stage")} == {"load"}:
        expected, got = _without_syntax(expected), _without_syntax(got)
    yield from differences(expected, got)


def _without_syntax(result: Json) -> Json:
    """A text about syntax is cut down to its prefix."""
    error = result["error"]
    if not isinstance(error, str):
        raise MalformedError(f"error must be a string, not {short(error)}")
    prefix = next((prefix for prefix in _SYNTAX if error.startswith(prefix)), error)
    return result | {"error": prefix}
