"""The strategic merge patch with which kubectl applies a manifest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

from .merge_patch import json_text
from .strategic_merge import DIRECTIVE, ORDER, REMOVE, RETAIN, MergeRule, identity, rule_of

Json: TypeAlias = Any
_Map: TypeAlias = dict[str, Any]
_ABSENT = object()


def three_way_strategic_patch(original: _Map, new: _Map, live: _Map, struct: str) -> _Map:
    """Return the patch that `kubectl apply` makes: what the last manifest had and the new one lacks is
    removed, and what the new one has is set.

    Parameters
    ----------
    original : dict
        The manifest that was applied last.
    struct : str
        Their struct; see `rule_of`.

    Returns
    -------
    dict
        Empty if there is nothing to change.
    """
    return _joined(_removals(original, new, struct), _changes(live, new, struct), struct)


# ---- what the new manifest sets ----------------------------------------------------------------------------


def _changes(live: _Map, new: _Map, struct: str, retains: bool = False) -> _Map:
    """Return the patch that sets what a manifest has and the object lacks."""
    patch: _Map = {}
    for field in sorted(new):
        item, old, rule = new[field], live.get(field, _ABSENT), rule_of(struct, field)
        if isinstance(item, dict) and isinstance(old, dict) and not rule.replaces:
            if changed := _changes(old, item, rule.struct, rule.retains):
                patch[field] = changed
        elif isinstance(item, list) and isinstance(old, list) and rule.merges:
            patch |= _list_changes(field, old, item, rule)
        elif old is _ABSENT or json_text(old) != json_text(item):
            patch[field] = item
    if retains and patch:
        patch[RETAIN] = sorted(new)
    return patch


def _list_changes(field: str, live: Sequence[Json], new: Sequence[Json], rule: MergeRule) -> _Map:
    """Return the part of a patch that changes and adds items of a list, and gives their order."""
    items: list[Json] = []
    if rule.key:
        matches = _by_key(live, rule.key)
        for one in new:
            old = _next(matches, one, rule.key)
            changed = one if old is None else _changes(old, one, rule.struct, rule.retains)
            if changed:
                items.append({rule.key: one.get(rule.key)} | changed)
    else:
        known = set(map(json_text, live))
        items = [one for one in new if json_text(one) not in known]
    is_in_order = _keys(live, rule.key, new) == _keys(new, rule.key, live)
    if not items and is_in_order:
        return {}
    return {ORDER + field: _order(new, rule.key)} | ({field: items} if items else {})


# ---- what the last manifest had ----------------------------------------------------------------------------


def _removals(original: _Map, new: _Map, struct: str) -> _Map:
    """Return the patch that removes what the last manifest had and the new one lacks."""
    patch: _Map = {}
    for field, old in original.items():
        item, rule = new.get(field, _ABSENT), rule_of(struct, field)
        if item is _ABSENT:
            patch[field] = None
        elif isinstance(item, dict) and isinstance(old, dict) and not rule.replaces:
            if removed := _removals(old, item, rule.struct):
                patch[field] = removed
        elif isinstance(item, list) and isinstance(old, list) and rule.merges:
            patch |= _list_removals(field, old, item, rule)
    return patch


def _list_removals(field: str, original: Sequence[Json], new: Sequence[Json], rule: MergeRule) -> _Map:
    """Return the part of a patch that removes items of a list, and fields of items."""
    order = {ORDER + field: _order(new, rule.key)}
    if not rule.key:
        kept = set(map(json_text, new))
        gone = [one for one in original if json_text(one) not in kept]
        return order | {REMOVE + field: gone} if gone else {}
    items, matches = list[Json](), _by_key(new, rule.key)
    for old in original:
        one = _next(matches, old, rule.key)
        removed = {DIRECTIVE: "delete"} if one is None else _removals(old, one, rule.struct)
        if removed:
            items.append({rule.key: old.get(rule.key)} | removed)
    return order | {field: items} if items else {}


# ---- both --------------------------------------------------------------------------------------------------


def _joined(removals: _Map, changes: _Map, struct: str) -> _Map:
    """Return both patches as one."""
    patch = dict(removals)
    for field, item in changes.items():
        old, rule = patch.get(field), rule_of(struct, field)
        if isinstance(old, dict) and isinstance(item, dict) and not rule.replaces:
            item = _joined(old, item, rule.struct)
        elif isinstance(old, list) and isinstance(item, list) and rule.merges and rule.key:
            item = _joined_items(old, item, rule)
        patch[field] = item
    return patch


def _joined_items(removals: Sequence[Json], changes: Sequence[Json], rule: MergeRule) -> list[Json]:
    matches = _by_key(changes, rule.key)
    found = [(one, _next(matches, one, rule.key)) for one in removals if DIRECTIVE not in one]
    joined = [one if other is None else _joined(one, other, rule.struct) for one, other in found]
    rest = [one for of_key in matches.values() for one in of_key]
    deleted = [one for one in removals if DIRECTIVE in one]
    return [*deleted, *joined, *rest]


def _by_key(items: Sequence[Json], key: str) -> defaultdict[bytes, list[_Map]]:
    """Return the items of a list by their keys; of two with one key the first counts first."""
    found: defaultdict[bytes, list[_Map]] = defaultdict(list)
    for one in items:
        if isinstance(one, dict):
            found[json_text(one.get(key))].append(one)
    return found


def _next(matches: defaultdict[bytes, list[_Map]], item: Json, key: str) -> _Map | None:
    """Take the next item with the key of another one."""
    found = matches[json_text(item.get(key))] if isinstance(item, dict) else []
    return found.pop(0) if found else None


def _order(items: Sequence[Json], key: str) -> list[Json]:
    return [{key: one.get(key)} if isinstance(one, dict) else one for one in items] if key else list(items)


def _keys(items: Sequence[Json], key: str, others: Sequence[Json]) -> list[bytes]:
    """Return the identities of the items that another list has as well."""
    known = {identity(one, key) for one in others}
    return [text for one in items if (text := identity(one, key)) in known]
