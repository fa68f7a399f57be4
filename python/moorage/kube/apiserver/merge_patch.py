"""Merge patches of JSON values (RFC 7386) and Kubernetes' strategic ones. No value is changed in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from moorage.errors import InputError, located
from moorage.grouped import grouped
from moorage.lazy import NamedTuple

from .unknown_fields import LISTS, MAPS, fields_of

Json: TypeAlias = Any


def json_text(value: Json) -> bytes:
    """Return the JSON text of a value, with sorted keys.

    Equal values have equal texts. (Python's `==` does not serve: it calls true and 1 equal.)
    """
    return msgspec.json.encode(value, order="sorted")


def merge_patch(value: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386): maps are merged, null removes, any other value replaces."""
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


def three_way_patch(original: dict[str, Any], new: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch with which kubectl applies a manifest of a kind that it does not know.

    Parameters
    ----------
    original : dict
        The manifest that was applied last.

    Returns
    -------
    dict
        It removes what the last manifest had and the new one lacks, and sets what the new one has; lists are
        replaced.
    """
    removed = _nulls(merge_difference(original, new))
    return _overlaid(removed, _without_nulls(merge_difference(live, new)))


def _nulls(patch: dict[str, Any]) -> dict[str, Any]:
    """Return what a patch removes."""
    values = {key: _nulls(value) if isinstance(value, dict) else value for key, value in patch.items()}
    return {
        key: value for key, value in values.items() if value is None or (isinstance(value, dict) and value)
    }


def _without_nulls(patch: dict[str, Any]) -> dict[str, Any]:
    """Return what a patch sets."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }


def _overlaid(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return both patches as one; the other counts where they differ."""
    both = {
        key: _overlaid(value, other[key])
        for key, value in first.items()
        if isinstance(value, dict) and isinstance(other.get(key), dict)
    }
    return first | other | both


# ---- strategic merge ---------------------------------------------------------------------------------------
#
# Kubernetes' strategic merge patches, by the strategies and merge keys of its types.
#
# The table is merge_keys.json, and that of `unknown_fields` says which structs are in which fields. No value
# is changed in place.

DIRECTIVE, RETAIN = "$patch", "$retainKeys"
REMOVE, ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
_DELETED = object()
_OF_V1_37 = {
    f"scheduling.v1beta1.{kind}Status": {
        "conditions": ("merge", "type"),
        "resourceClaimStatuses": ("merge,retainKeys", "name"),
    }
    for kind in ("PodGroup", "CompositePodGroup")
}
"""Structs of pod groups of v1.37, which the table of v1.36 lacks."""


class MergeRule(NamedTuple):
    """How a patch changes a field.

    Attributes
    ----------
    struct : str
        The struct of the field, or of the items of its list, for `rule_of`; "" without one.
    merges : bool
        Whether the items of a list are merged; otherwise the list is replaced.
    key : str
        The field that identifies the items; "" for items that are no maps.
    retains : bool
        Whether a patch that `kubectl apply` makes names all fields that stay, as in a union of which one
        field is set.
    replaces : bool
        Whether a map is replaced.
    """

    struct: str
    merges: bool = False
    key: str = ""
    retains: bool = False
    replaces: bool = False


class _Table(msgspec.Struct):
    structs: dict[str, dict[str, tuple[str, str]]]


@cache
def _table() -> dict[str, dict[str, tuple[str, str]]]:
    text = Path(__file__).with_name("merge_keys.json").read_bytes()
    return msgspec.json.decode(text, type=_Table).structs | _OF_V1_37


@cache
def rule_of(struct: str, field: str) -> MergeRule:
    """Return how a patch changes a field.

    Parameters
    ----------
    struct : str
        Name of the struct, from `struct_of`; the fields of "" are merged if they are maps, and replaced
        otherwise.
    """
    target = fields_of(struct).get(field, "") if struct else ""
    inner = "" if target.endswith(MAPS) else target.removesuffix(LISTS)
    strategies, key = _table().get(struct, {}).get(field, ("", ""))
    names = strategies.split(",")
    return MergeRule(inner, "merge" in names, key, "retainKeys" in names, "replace" in names)


def strategic_merge(value: Json, patch: Json, struct: str = "", path: str = "") -> Json:
    """Apply a strategic merge patch: a merge patch that merges the items of some lists by a key.

    Directives: ``$patch: delete`` in an item of such a list, ``$patch: replace`` in a map or as an item of a
    list, ``$deleteFromPrimitiveList/FIELD``, ``$setElementOrder/FIELD``, and ``$retainKeys`` in a map, which
    removes all fields but those that it names.

    Parameters
    ----------
    struct : str
        The struct of the value; see `rule_of`.
    path : str
        The field of the object that `value` is, for errors.

    Raises
    ------
    InputError
        The patch has another directive, or an item without its key.
    """
    if not isinstance(patch, dict):
        return patch
    if patch.get(DIRECTIVE) == "replace":
        return {key: item for key, item in patch.items() if key != DIRECTIVE}
    merged = dict(value) if isinstance(value, dict) else {}
    if isinstance(retained := patch.get(RETAIN), list):
        patch = {key: item for key, item in patch.items() if key != RETAIN}
        given = {key for key, item in patch.items() if item is not None and not key.startswith("$")}
        if not given <= set(map(str, retained)):
            raise InputError("must name all fields of the patch", path=f"{path}.{RETAIN}".lstrip("."))
        merged = {key: item for key, item in merged.items() if key in retained}
    orders = {key.removeprefix(ORDER): item for key, item in patch.items() if key.startswith(ORDER)}
    for key, item in patch.items():
        at = f"{path}.{key}" if path else key
        name = key.removeprefix(REMOVE).removeprefix(ORDER)
        rule = rule_of(struct, name)
        if rule.merges and isinstance(item, list):
            old = _items(value.get(name) if isinstance(value, dict) else None)
            left = _items(merged.get(name))
            if key.startswith(REMOVE):
                left = _without(left, item)
            elif not key.startswith(ORDER):
                left = _merge_items(left, item, rule, at) if rule.key else left + _without(item, left)
            order = orders.get(name, item if key == name else None)
            merged[name] = _in_order(left, order, old, rule.key) if isinstance(order, list) else left
        elif item is None:
            merged.pop(key, None)
        elif key.startswith("$"):
            raise InputError("unknown directive", path=at)
        elif rule.replaces:
            merged[key] = item
        else:
            merged[key] = strategic_merge(merged.get(key), item, rule.struct, at)
    return merged


def _items(value: Json) -> list[Json]:
    """Return a list, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def _without(old: list[Json], removed: list[Json]) -> list[Json]:
    """Return the old items that are not removed."""
    texts = {json_text(item) for item in removed}
    return [item for item in old if json_text(item) not in texts]


def _merge_items(old: list[Json], patch: list[Json], rule: MergeRule, path: str) -> list[Json]:
    """Return the items of `old`, each merged with the item of `patch` that has the same key, and the new
    items."""
    key = rule.key
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and DIRECTIVE in item)]
    merged: list[Json] = list(old)
    # Indexes of the items with each key; the first one counts.
    indexes = grouped((json_text(item.get(key)), at) for at, item in enumerate(old))
    for i, item in enumerate(patch):
        with located(path=f"{path}[{i}]"):
            positions = indexes.setdefault(json_text(merge_key(item, key)), [])
        if item.get(DIRECTIVE) == "delete":
            if positions:
                merged[positions.pop(0)] = _DELETED
        elif positions:
            at = positions[0]
            merged[at] = strategic_merge(merged[at], item, rule.struct, f"{path}[{i}]")
        else:
            positions.append(len(merged))
            merged.append(strategic_merge({}, item, rule.struct, f"{path}[{i}]"))
    return [item for item in merged if item is not _DELETED]


def merge_key(item: Json, key: str) -> Json:
    """Return what identifies an item of a list that is merged.

    Raises
    ------
    InputError
        It is no map, or lacks its key.
    """
    if not isinstance(item, dict) or item.get(key) is None:
        raise InputError(f"map does not contain declared merge key: {key}")
    return item[key]


def _in_order(items: list[Json], order: Sequence[Json], old: Sequence[Json], key: str) -> list[Json]:
    """Return items in the order of a patch: that of its items, where it has no other. Those that it does not
    name stay before the items that they stood before; new items are before what follows."""
    wanted, before = _positions(order, key), _positions(old, key)
    identified = [(identity(item, key), item) for item in items]
    named = sorted((pair for pair in identified if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = [pair for pair in identified if pair[0] not in wanted]
    ordered: list[tuple[bytes, Json]] = []
    while named and others:
        first, second = before.get(others[0][0]), before.get(named[0][0])
        is_other = first is not None and second is not None and first < second
        ordered.append((others if is_other else named).pop(0))
    return [item for _, item in (*ordered, *named, *others)]


def _positions(items: Sequence[Json], key: str) -> Mapping[bytes, int]:
    """Return the position of the first item of each identity."""
    return {identity(item, key): at for at, item in reversed(list(enumerate(items)))}


def identity(item: Json, key: str) -> bytes:
    """Return what tells an item of a list from others: the text of its key, or of the item without one.

    Parameters
    ----------
    key : str
        The merge key; "" for items that are no maps.
    """
    return json_text(item.get(key) if key and isinstance(item, dict) else item)
