"""How Karpenter and the Go libraries under it write values into messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.kube.go_texts import go_json
from moorage.kube.plain import plain


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
    return go_json({name: str(amounts[name]) for name in sorted(amounts)})


def with_values(text: str, **values: object) -> str:
    """A message with named values behind it, in order of their names."""
    return f"{text} ({', '.join(f'{name}={values[name]}' for name in sorted(values))})"
