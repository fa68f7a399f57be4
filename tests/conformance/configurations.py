"""Checks of ``configurations.jsonl.gz``: which configurations are accepted, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.errors import ConfigurationError
from moorage.kube.releases import DEFAULT, feature_gates, gates_of, release_named
from tests.doors.engine import effective, in_tree, load_configuration
from tests.doors.kube import Stage

from .compare import differences, short
from .vectors import MalformedError

Json = dict[str, Any]

NOT_BUILT = "moorage has only its default"

INPUT = ("name", "yaml", "release", "featureGates")
"""The fields of a line that are no result."""

# Texts of the general YAML and JSON libraries about what they cannot parse at all: our parsers know less of
# the place, so only stage and these words are compared. All other texts of stage load are compared whole.
_SYNTAX = ("yaml: ", "couldn't get version/kind; json parse error: invalid character ")


def outcome(text: str, version: str = DEFAULT, changes: Mapping[str, bool] | None = None) -> Json:
    """What becomes of a configuration, in the form of a line of the vectors, without name and text."""
    release = release_named(version)
    plugins = in_tree(release)
    registry = {plugin.name: plugin for plugin in plugins}
    try:
        gates = feature_gates(changes, release)
    except ValueError as error:
        return {"ok": False, "stage": "gates", "error": _without_hint(error)}
    try:
        configuration = load_configuration(text.encode(), plugins, feature_gates=gates)
        return {
            "ok": True,
            "effective": effective(configuration, registry, release),
        }
    except ConfigurationError as error:
        return {"ok": False, "stage": error.stage, "error": error.upstream}


def check(line: Json) -> Iterator[str]:
    """The differences between a line and what becomes of its configuration; every field counts."""
    if not isinstance(line.get("name"), str) or not isinstance(line.get("yaml"), str):
        raise MalformedError("name and yaml must be strings")
    expected = {key: value for key, value in line.items() if key not in INPUT}
    got = outcome(line["yaml"], line.get("release", DEFAULT), line.get("featureGates"))
    if {expected.get("stage"), got.get("stage")} == {"load"}:
        expected, got = _without_syntax(expected), _without_syntax(got)
    yield from differences(expected, got)


def is_gate(line: Json) -> bool:
    """Whether a line is of ``gates.jsonl.gz``: a gate, and what setting it alone comes to."""
    return line.keys() == {"name", "default", "stage", "locked", "on", "off", "release"}


def check_gate(line: Json) -> Iterator[str]:
    """The differences between a line and the gate. One that is not built here may be refused where upstream
    accepts it."""
    release = release_named(line["release"])
    gate = gates_of(release).get(line["name"])
    got = dict(line)
    if gate is not None:  # AllAlpha and AllBeta are none
        stage = "" if gate.stage is Stage.GA else gate.stage.name
        got |= {"default": gate.default, "stage": stage, "locked": gate.is_locked}
    for key, value in (("on", True), ("off", False)):
        try:
            feature_gates({line["name"]: value}, release)
            got[key] = ""
        except ValueError as error:
            got[key] = line[key] if NOT_BUILT in str(error) else _without_hint(error)
    yield from differences({**line, **_texts(line)}, {**got, **_texts(got)})


def _texts(line: Json) -> Json:
    """Several errors stand in the order of a map."""
    return {key: sorted(line[key].strip("[").removesuffix("]]").split("], ")) for key in ("on", "off")}


def _without_hint(error: ValueError) -> str:
    """Upstream's part of an error about gates."""
    return str(error).partition("; ")[0]


def _without_syntax(result: Json) -> Json:
    """A text about syntax is cut down to its prefix."""
    error = result["error"]
    if not isinstance(error, str):
        raise MalformedError(f"error must be a string, not {short(error)}")
    prefix = next((prefix for prefix in _SYNTAX if error.startswith(prefix)), error)
    return result | {"error": prefix}
