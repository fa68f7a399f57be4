"""The errors about fields, in the words of Kubernetes (k8s.io/apimachinery v0.36, util/validation/field), and
parts of JSON values, in which they are looked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moorage.lazy import NamedTuple

from .go_texts import go_json, quote

Json = dict[str, Any]


class Fault(NamedTuple):
    """A field that is wrong, and why."""

    field: str
    text: str


def aggregate(messages: Iterable[str]) -> str:
    """Join the distinct messages to one, as Go does (util/errors); "" for none."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def required(why: str = "") -> str:
    """Return the text about a field that is not there."""
    return f"Required value: {why}" if why else "Required value"


def invalid(value: Any, why: str) -> str:
    """Return the text about a wrong value."""
    return f"Invalid value: {_shown(value)}: {why}"


def forbidden(why: str) -> str:
    """Return the text about a field that must not be there."""
    return f"Forbidden: {why}"


def duplicate(value: Any) -> str:
    """Return the text about a value that stands twice."""
    return f"Duplicate value: {_shown(value)}"


def not_found(value: Any) -> str:
    """Return the text about a name of nothing."""
    return f"Not found: {_shown(value)}"


def unsupported(value: Any, values: Iterable[str]) -> str:
    """Return the text about a value that is none of some."""
    return f"Unsupported value: {go_json(value)}: supported values: {', '.join(map(quote, values))}"


def _shown(value: Any) -> str:
    return quote(value) if isinstance(value, str) else go_json(value)


def parts(value: Json, name: str) -> list[Json]:
    """Return the structs of a list."""
    items = value.get(name)
    if not items or not isinstance(items, list | tuple):
        return []
    return [item if isinstance(item, dict) else {} for item in items]


def part(value: Any, name: str) -> Json:
    """Return the struct of a field; an empty one where there is none."""
    item = value.get(name) if isinstance(value, dict) else None
    return item if isinstance(item, dict) else {}
