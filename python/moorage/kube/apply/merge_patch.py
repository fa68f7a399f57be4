"""JSON merge patches (RFC 7386). No value is changed in place."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

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
    found = {key: _nulls(one) if isinstance(one, dict) else one for key, one in patch.items()}
    return {key: one for key, one in found.items() if one is None or (isinstance(one, dict) and one)}


def _without_nulls(patch: dict[str, Any]) -> dict[str, Any]:
    """Return what a patch sets."""
    return {
        key: _without_nulls(one) if isinstance(one, dict) else one
        for key, one in patch.items()
        if one is not None
    }


def _overlaid(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return both patches as one; the other counts where they differ."""
    both = {key: _overlaid(one[key], other[key]) for key in one if _are_maps(one[key], other.get(key))}
    return one | other | both


def _are_maps(*values: Json) -> bool:
    return all(isinstance(value, dict) for value in values)
