"""Removes what server-side apply has set and a new manifest lacks, by managed fields (meta/v1, FieldsV1)."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.meta import Struct
from .merge_patch import json_text

_APPLY, _ITSELF = "Apply", "."
_FIELD, _KEYS, _VALUE = "f:", "k:", "v:"
_GONE = object()


class _Manager(Struct, frozen=True):
    """The fields of a manager; `fields_v1` is a tree whose leaves are empty maps."""

    operation: str = ""
    fields_v1: dict[str, Any] = {}


def without_applied(live: dict[str, Any], managed_fields: str, new: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what one server-side apply has set, nobody else has, and a manifest lacks.

    Parameters
    ----------
    managed_fields : str
        Its ``metadata.managedFields`` as JSON text. Of several who have applied it, the one with the most
        fields counts.
    """
    managers = msgspec.json.decode(managed_fields or "[]", type=tuple[_Manager, ...])
    applied = [one for one in managers if one.operation == _APPLY]
    if not applied:
        return live
    chosen = max(applied, key=lambda one: _size(one.fields_v1))
    tree = chosen.fields_v1
    for other in managers:
        if other is not chosen:
            tree = _owned_alone(tree, other.fields_v1)
    left = _without(live, tree, new)
    return left if isinstance(left, dict) else {}


def _size(tree: dict[str, Any]) -> int:
    """Return the number of leaves."""
    return sum(map(_size, tree.values())) or 1


def _owned_alone(tree: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a tree without the leaves that another one has."""
    found: dict[str, Any] = {}
    for key, inner in tree.items():
        if key not in other:
            found[key] = inner
        elif rest := _owned_alone(inner, other[key]):
            found[key] = rest
    return found


def _without(value: Any, tree: dict[str, Any], new: Any) -> Any:
    """Return a value without the fields of a tree that a manifest lacks; `_GONE` if nothing is left."""
    if set(tree) <= {_ITSELF}:
        return _GONE if new is None else value
    left: Any = value
    if isinstance(value, dict):
        given = new if isinstance(new, dict) else {}
        left = {
            name: item if inner is None else _without(item, inner, given.get(name))
            for name, item in value.items()
            for inner in [tree.get(_FIELD + name)]
        }
        left = {name: item for name, item in left.items() if item is not _GONE}
    elif isinstance(value, list):
        left = [item for item in _items_without(value, tree, new) if item is not _GONE]
    return left or _GONE


def _items_without(items: list[Any], tree: dict[str, Any], new: Any) -> list[Any]:
    """Return the items of a list, each without what is removed of it."""
    given = new if isinstance(new, list) else []
    found = list(items)
    for key, inner in tree.items():
        if key.startswith(_VALUE):
            text = key.removeprefix(_VALUE).encode()
            is_given = any(json_text(one) == text for one in given)
            found = [_GONE if json_text(one) == text and not is_given else one for one in found]
        elif key.startswith(_KEYS):
            keys = msgspec.json.decode(key.removeprefix(_KEYS), type=dict[str, Any])
            match = next((one for one in given if _has(one, keys)), None)
            found = [_item_without(one, inner, match, keys) if _has(one, keys) else one for one in found]
    return found


def _item_without(item: dict[str, Any], tree: dict[str, Any], new: Any, keys: dict[str, Any]) -> Any:
    """Return an item without what is removed of it; with its keys it stays while others have fields of it."""
    left = _without(item, tree, new)
    rest = left if isinstance(left, dict) else {}
    is_gone = new is None and _ITSELF in tree and rest.keys() <= keys.keys()
    return _GONE if is_gone else keys | rest


def _has(item: Any, keys: dict[str, Any]) -> bool:
    return isinstance(item, dict) and all(item.get(name) == value for name, value in keys.items())
