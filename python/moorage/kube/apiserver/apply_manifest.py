"""Applies a manifest to an object that exists, as ``kubectl apply`` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError, located

from .. import workloads as of_workloads
from ..model.meta import LAST_APPLIED, Object, Struct
from ..model.pod import Pod
from ..model.workload import CustomObject
from ..plain import plain
from ..read.object_defaults import missing_tolerations
from ..workloads.ownership import stable_uid
from .decode import decode, decode_as, to_v1
from .hidden_texts import hidden_kept
from .merge_patch import (
    DIRECTIVE,
    ORDER,
    REMOVE,
    RETAIN,
    MergeRule,
    identity,
    json_text,
    merge_key,
    merge_patch,
    rule_of,
    strategic_merge,
    three_way_patch,
)
from .unknown_fields import struct_of

# ---- strategic patch ---------------------------------------------------------------------------------------
#
# The strategic merge patch with which kubectl applies a manifest.

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
            with located(path=field):
                changed = _changes(old, item, rule.struct, rule.retains)
            if changed:
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
        for at, item in enumerate(new):
            with located(path=f"{field}[{at}]"):
                key = merge_key(item, rule.key)
                old = _next(matches, item, rule.key)
                changed = item if old is None else _changes(old, item, rule.struct, rule.retains)
            if changed:
                items.append({rule.key: key} | changed)
    else:
        known = set(map(json_text, live))
        items = [item for item in new if json_text(item) not in known]
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
        gone = [item for item in original if json_text(item) not in kept]
        return order | {REMOVE + field: gone} if gone else {}
    items, matches = list[Json](), _by_key(new, rule.key)
    for old in original:
        if not isinstance(old, dict):  # no server has stored it
            continue
        item = _next(matches, old, rule.key)
        removed = {DIRECTIVE: "delete"} if item is None else _removals(old, item, rule.struct)
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
    pairs = [(item, _next(matches, item, rule.key)) for item in removals if DIRECTIVE not in item]
    joined = [item if other is None else _joined(item, other, rule.struct) for item, other in pairs]
    rest = [item for of_key in matches.values() for item in of_key]
    deleted = [item for item in removals if DIRECTIVE in item]
    return [*deleted, *joined, *rest]


def _by_key(items: Sequence[Json], key: str) -> defaultdict[bytes, list[_Map]]:
    """Return the items of a list by their keys; of two with one key the first counts first."""
    items_by_key: defaultdict[bytes, list[_Map]] = defaultdict(list)
    for item in items:
        if isinstance(item, dict):
            items_by_key[json_text(item.get(key))].append(item)
    return items_by_key


def _next(matches: defaultdict[bytes, list[_Map]], item: Json, key: str) -> _Map | None:
    """Take the next item with the key of another one."""
    matching = matches[json_text(item.get(key))] if isinstance(item, dict) else []
    return matching.pop(0) if matching else None


def _order(items: Sequence[Json], key: str) -> list[Json]:
    return (
        [{key: item.get(key)} if isinstance(item, dict) else item for item in items] if key else list(items)
    )


def _keys(items: Sequence[Json], key: str, others: Sequence[Json]) -> list[bytes]:
    """Return the identities of the items that another list has as well."""
    known = {identity(item, key) for item in others}
    return [text for item in items if (text := identity(item, key)) in known]


# ---- managed fields ----------------------------------------------------------------------------------------
#
# Removes what server-side apply has set and a new manifest lacks, by managed fields (meta/v1, FieldsV1).

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
    applied = [manager for manager in managers if manager.operation == _APPLY]
    if not applied:
        return live
    chosen = max(applied, key=lambda manager: _size(manager.fields_v1))
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
    owned: dict[str, Any] = {}
    for key, inner in tree.items():
        if key not in other:
            owned[key] = inner
        elif rest := _owned_alone(inner, other[key]):
            owned[key] = rest
    return owned


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
    left = list(items)
    for key, inner in tree.items():
        if key.startswith(_VALUE):
            text = key.removeprefix(_VALUE).encode()
            is_given = any(json_text(item) == text for item in given)
            left = [_GONE if json_text(item) == text and not is_given else item for item in left]
        elif key.startswith(_KEYS):
            keys = msgspec.json.decode(key.removeprefix(_KEYS), type=dict[str, Any])
            match = next((item for item in given if _has(item, keys)), None)
            left = [_item_without(item, inner, match, keys) if _has(item, keys) else item for item in left]
    return left


def _item_without(item: dict[str, Any], tree: dict[str, Any], new: Any, keys: dict[str, Any]) -> Any:
    """Return an item without what is removed of it; with its keys it stays while others have fields of it."""
    left = _without(item, tree, new)
    rest = left if isinstance(left, dict) else {}
    is_gone = new is None and _ITSELF in tree and rest.keys() <= keys.keys()
    return _GONE if is_gone else keys | rest


def _has(item: Any, keys: dict[str, Any]) -> bool:
    return isinstance(item, dict) and all(item.get(name) == value for name, value in keys.items())


# ---- apply manifest ----------------------------------------------------------------------------------------

T = TypeVar("T", bound=Object)

_OWN = ("labels", "annotations", "ownerReferences", "finalizers")
"""The fields of metadata that a manifest changes; others are the server's."""
_WRITTEN = ("nodeName", "volumeName")
"""What schedulers and controllers write to the spec of a pod and of a claim."""
_COMPUTED = ("priority", "preemptionPolicy")
"""What admission sets in a pod's spec from its class, and `default_object` in a template."""


def apply_manifest(live: T, manifest: bytes | dict[str, Any]) -> T:
    """Return an object after ``kubectl apply`` of a manifest.

    A three-way merge: what the manifest has is set; what it lacks, and the one that was applied last had, is
    removed; everything else stays, such as the replicas that an autoscaler has set. The last manifest is that
    of the annotation kubectl.kubernetes.io/last-applied-configuration; without it, what server-side apply has
    set. An object of a server without both loses nothing. One that was read from a manifest is that manifest.

    Parameters
    ----------
    manifest : bytes or dict
        A manifest of this kind, namespace and name, as JSON text or value.

    Returns
    -------
    Object
        With the status and the metadata of `live`. `live` itself if nothing changes.

    Raises
    ------
    InputError
        A field has a wrong type.
    """
    given = to_v1(decode(manifest, dict[str, Any]), live.kind)
    new, present = _applied_part(given), _applied_part(_value(live))
    original = _last_applied(live, present)
    spec = _template_spec(present)
    for key in _COMPUTED:
        if key in spec and not any(key in _template_spec(manifest) for manifest in (original, new)):
            del spec[key]
    after = _merged(live, present, original, new)
    if after == present:
        return live
    meta, text = after.setdefault("metadata", {}), live.metadata.annotations.get(LAST_APPLIED)
    if text or is_served(live):
        text = text if text and original == new else _text(given)
        meta["annotations"] = meta.get("annotations", {}) | {LAST_APPLIED: text}
    return _read(live, after)


def _merged(live: Object, present: _Map, original: _Map, new: _Map) -> _Map:
    """Return what an object has after a manifest was applied to what it has at present."""
    struct = _struct(live)
    before = without_applied(present, live.metadata.managed_fields, new)
    if struct:
        patch = three_way_strategic_patch(original, new, before, struct)
        after = strategic_merge(before, patch, struct)
    else:
        after = merge_patch(before, three_way_patch(original, new, before))
    return cast("_Map", hidden_kept(present, after, []))


def applied_value(live: Object, stored: _Map, manifest: bytes) -> _Map:
    """Return an object with all its fields after ``kubectl apply`` of a manifest; see `apply_manifest`.

    Parameters
    ----------
    stored : dict
        The JSON value of `live`, which has the fields that are not read, too.
    """
    new, present = _applied_part(decode(manifest, dict[str, Any])), _applied_part(stored)
    after = _merged(live, present, _last_applied(live, present), new)
    kept = {key: stored[key] for key in ("apiVersion", "kind", "status") if key in stored}
    return kept | after | {"metadata": {**stored["metadata"], **after.get("metadata", {})}}


def _read(live: T, after: dict[str, Any]) -> T:
    """Return an object with the fields that a manifest changes."""
    if isinstance(live, CustomObject):
        whole = _value(live)
        kept = {key: whole[key] for key in ("apiVersion", "kind", "status") if key in whole}
        meta = {key: item for key, item in whole["metadata"].items() if key not in _OWN}
        document = kept | after | {"metadata": meta | after["metadata"]}
        custom: Any = of_workloads.custom_objects.read_custom(document, live.kind, live.api_version)
        return cast("T", custom)
    read = decode_as(after, type(live))
    if isinstance(read, Pod) and isinstance(live, Pod) and read.spec.tolerations != live.spec.tolerations:
        tolerations = (*read.spec.tolerations, *missing_tolerations(read.spec.tolerations))
        read = replace(read, spec=replace(read.spec, tolerations=tolerations))
    own = read.metadata
    merged = replace(
        live.metadata,
        labels=own.labels,
        annotations=own.annotations,
        owner_references=own.owner_references,
        finalizers=own.finalizers,
    )
    changes: dict[str, Any] = {"metadata": merged}
    if "status" in live.__struct_fields__:
        changes["status"] = live.status  # type: ignore[attr-defined]
    return replace(read, kind=live.kind, api_version=live.api_version, **changes)


def _value(obj: Object) -> dict[str, Any]:
    """Return an object as a JSON value."""
    value: dict[str, Any] = (
        decode(obj.document, dict[str, Any]) if isinstance(obj, CustomObject) else plain(obj)
    )
    return value


def with_last_applied(obj: T, manifest: bytes) -> T:
    """Return a new object with the annotation of the manifest that it was made of."""
    annotations = obj.metadata.annotations | {LAST_APPLIED: _text(decode(manifest, dict[str, Any]))}
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))


def is_served(obj: Object) -> bool:
    """Whether an object is from an API server, and not from a manifest."""
    meta = obj.metadata
    return bool(meta.uid) and meta.uid != stable_uid(obj.kind, meta.namespace, obj.name)


def has_last_applied(obj: Object) -> bool:
    """Whether it is known what was applied last, so that fields that a new manifest lacks are removed."""
    return not is_served(obj) or LAST_APPLIED in obj.metadata.annotations or bool(obj.metadata.managed_fields)


def _struct(obj: Object) -> str:
    """Return the name of the struct of a built-in kind, also of a version that it had before."""
    known = struct_of(obj.kind, obj.api_version)
    return known if known or isinstance(obj, CustomObject) else struct_of(obj.kind, type(obj)().api_version)


def _applied_part(value: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest of this value would change."""
    part = {
        key: item for key, item in value.items() if key not in ("apiVersion", "kind", "status", "metadata")
    }
    metadata = value.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    meta = {key: given[key] for key in _OWN if key in given}
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {key: item for key, item in meta["annotations"].items() if key != LAST_APPLIED}
    return part | {"metadata": {key: item for key, item in meta.items() if item not in (None, {}, [])}}


def _last_applied(live: Object, value: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest that was applied last; an empty one if it is not known."""
    text = live.metadata.annotations.get(LAST_APPLIED)
    if text:
        try:
            return _applied_part(to_v1(msgspec.json.decode(text, type=dict[str, Any]), live.kind))
        except (msgspec.MsgspecError, RecursionError):
            path = f"metadata.annotations[{LAST_APPLIED}]"
            raise InputError("is not a manifest, so nothing can be applied", path=path) from None
    if not is_served(live):
        meta = {key: part for key, part in value["metadata"].items() if key in ("labels", "annotations")}
        spec = value.get("spec", {})
        kept = {key: part for key, part in spec.items() if key not in _WRITTEN}
        return value | {"metadata": meta} | ({"spec": kept} if spec else {})
    return {}


def _template_spec(value: Any) -> dict[str, Any]:
    for key in ("spec", "template", "spec"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _text(manifest: dict[str, Any]) -> str:
    return msgspec.json.encode(manifest, order="sorted").decode()
