"""One strict comparison of two results in the vectors' own format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Plugins that never decide anything here: the engine may leave them out, but then everywhere.
OPTIONAL = frozenset({"DynamicResources", "NodeDeclaredFeatures"})

NAME_LISTS = ("filterPlugins", "scorePlugins", "skippedFilter", "skippedScore")


def differences(expected: Any, got: Any, path: str = "") -> Iterator[str]:
    """Every place where two JSON values differ, types included, as one line each."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted({*expected, *got}):
            at = f"{path}.{key}" if path else key
            if key not in got:
                yield f"{at}: expected {short(expected[key])}, got nothing"
            elif key not in expected:
                yield f"{at}: expected nothing, got {short(got[key])}"
            else:
                yield from differences(expected[key], got[key], at)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif type(expected) is not type(got) or expected != got:
        yield f"{path}: expected {short(expected)}, got {short(got)}"


def short(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def mentioned(header: dict[str, Any]) -> set[str]:
    """The optional plugins that the header of a result names."""
    return {
        name
        for key in ("filterPlugins", "scorePlugins", "weights")
        for name in header.get(key, ())
        if name in OPTIONAL
    }


def without(part: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The header or a step of a vector's result with the optional plugins `names` left out.

    A plugin with a score other than zero is not left out: the comparison then shows it.
    """
    part = dict(part)
    for key in NAME_LISTS:
        if isinstance(part.get(key), list) and not names.isdisjoint(part[key]):
            part[key] = [name for name in part[key] if name not in names]
            if not part[key]:
                del part[key]
    if isinstance(part.get("weights"), dict):
        part["weights"] = {key: value for key, value in part["weights"].items() if key not in names}
    if isinstance(part.get("scores"), dict):
        part["scores"] = {key: _without_zeros(value, names) for key, value in part["scores"].items()}
    return part


def _without_zeros(scores: Any, names: frozenset[str]) -> Any:
    if not isinstance(scores, dict):
        return scores
    return {key: value for key, value in scores.items() if key not in names or any(value)}
