"""How Karpenter and the Go libraries under it write values into messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.objects import Taint
from moorage.objects.plain import plain


def concise(value: Any) -> str:
    """A JSON text as Go's encoder writes it: without spaces, and with <, > and & escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def go_form(value: Any) -> Any:
    """A struct as a JSON value, with maps in order of their keys."""
    return _sorted_maps(plain(value))


def _sorted_maps(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted_maps(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain_map = all(isinstance(item, str) for item in value.values())
    return {key: _sorted_maps(value[key]) for key in (sorted(value) if plain_map else value)}


def resources(amounts: Mapping[str, Quantity]) -> str:
    return concise({name: str(amounts[name]) for name in sorted(amounts)})


def taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def with_values(text: str, **values: object) -> str:
    """A message with named values behind it, in order of their names."""
    return f"{text} ({', '.join(f'{name}={values[name]}' for name in sorted(values))})"
