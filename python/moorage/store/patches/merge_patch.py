"""Merge patches of JSON values: RFC 7386, and Kubernetes' strategic merge. No value is changed in place."""

from __future__ import annotations

from typing import Any, TypeAlias

from moorage.errors import InputError

from .json_patch import json_text

Json: TypeAlias = Any

_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumes": "name",
}
"""Lists that are merged, to the field that identifies their items (`patchMergeKey` in the API types)."""
_SETS = frozenset({"finalizers"})
"""Lists of strings that are merged."""
_REMOVE = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"
_DELETED = object()


def merge_patch(value: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386): maps are merged, null removes, any other value replaces.

    Parameters
    ----------
    value, patch : JSON value

    Returns
    -------
    JSON value
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged


def merge_difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch from one map to another.

    Parameters
    ----------
    old, new : dict
        JSON values without null.

    Returns
    -------
    dict
        Empty where they are equal.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if before != value:
                patch[key] = merge_difference(before, value)
        elif value != before:
            patch[key] = value
    return patch


def strategic_merge(value: Json, patch: Json, path: str = "") -> Json:
    """Apply a strategic merge patch: a merge patch that merges the items of some lists by a key.

    The supported directives are ``$patch: delete`` in an item of such a list,
    ``$deleteFromPrimitiveList/finalizers``, and ``$retainKeys`` in a map, which removes all fields but those
    that it names.

    Parameters
    ----------
    value, patch : JSON value
    path : str
        The field of the object that `value` is, for errors.

    Returns
    -------
    JSON value

    Raises
    ------
    InputError
        The patch has another directive, or an item without its key.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    if isinstance(retained := patch.get(_RETAIN), list):
        patch = {key: item for key, item in patch.items() if key != _RETAIN}
        given = {key for key, item in patch.items() if item is not None and not key.startswith(_REMOVE)}
        if not given <= set(map(str, retained)):
            raise InputError("must name all fields of the patch", path=f"{path}.{_RETAIN}".lstrip("."))
        merged = {key: item for key, item in merged.items() if key in retained}
    for key, item in patch.items():
        at = f"{path}.{key}" if path else key
        name = key.removeprefix(_REMOVE)
        if item is None:
            merged.pop(key, None)
        elif name in _SETS and isinstance(item, list):
            old = _items(merged.get(name))
            merged[name] = _union(old, item) if name == key else _without(old, item)
        elif key.startswith("$"):
            raise InputError("unknown directive", path=at)
        elif key in _KEYS and isinstance(item, list):
            merged[key] = _merge_items(_items(merged.get(key)), item, _KEYS[key], at)
        else:
            merged[key] = strategic_merge(merged.get(key), item, at)
    return merged


def _items(value: Json) -> list[Json]:
    """Return a list, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def _union(old: list[Json], new: list[Json]) -> list[Json]:
    """Return the old items, then those new items that differ from all of them."""
    known = {json_text(item) for item in old}
    return old + [item for item in new if json_text(item) not in known]


def _without(old: list[Json], removed: list[Json]) -> list[Json]:
    """Return the old items that are not removed."""
    texts = {json_text(item) for item in removed}
    return [item for item in old if json_text(item) not in texts]


def _merge_items(old: list[Json], patch: list[Json], key: str, path: str) -> list[Json]:
    """Return the items of `old`, each merged with the item of `patch` that has the same key, then the new
    items."""
    merged: list[Json] = list(old)
    indexes: dict[bytes, list[int]] = {}  # indexes of the items with each key; the first one counts
    for at, one in enumerate(old):
        indexes.setdefault(json_text(one.get(key)), []).append(at)
    for i, item in enumerate(patch):
        if not isinstance(item, dict) or item.get(key) is None:
            raise InputError(f"map does not contain declared merge key: {key}", path=f"{path}[{i}]")
        positions = indexes.setdefault(json_text(item[key]), [])
        if item.get("$patch") == "delete":
            if positions:
                merged[positions.pop(0)] = _DELETED
        elif positions:
            merged[positions[0]] = strategic_merge(merged[positions[0]], item, f"{path}[{i}]")
        else:
            positions.append(len(merged))
            merged.append(strategic_merge({}, item, f"{path}[{i}]"))
    return [one for one in merged if one is not _DELETED]
