"""Applies a manifest to an object that exists, as ``kubectl apply`` does."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError

from ..model.meta import LAST_APPLIED, Object, ObjectMeta
from ..model.other_workloads import CustomObject
from ..model.pod import Pod
from ..plain import plain
from ..read.decode import decode, decode_as
from ..read.object_defaults import missing_tolerations
from ..read.resource_versions import to_v1
from ..validate.unknown_fields import struct_of
from ..workloads.kinds.custom_objects import read_custom
from ..workloads.naming import stable_uid
from .managed_fields import without_applied
from .merge_patch import merge_patch, three_way_patch
from .strategic_merge import strategic_merge
from .strategic_patch import three_way_strategic_patch

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
    new, struct = _applied_part(given), _struct(live)
    present = _applied_part(_value(live))
    original = _last_applied(live, present)
    _drop_computed(present, (original, new))
    before = without_applied(present, live.metadata.managed_fields, new)
    if struct:
        patch = three_way_strategic_patch(original, new, before, struct)
        after = strategic_merge(before, patch, struct)
    else:
        after = merge_patch(before, three_way_patch(original, new, before))
    if after == present:
        return live
    meta, text = after.setdefault("metadata", {}), live.metadata.annotations.get(LAST_APPLIED)
    if text or is_served(live):
        text = text if text and original == new else _text(given)
        meta["annotations"] = meta.get("annotations", {}) | {LAST_APPLIED: text}
    return _read(live, after)


def _read(live: T, after: dict[str, Any]) -> T:
    """Return an object with the fields that a manifest changes."""
    if isinstance(live, CustomObject):
        whole = _value(live)
        kept = {key: whole[key] for key in ("apiVersion", "kind", "status") if key in whole}
        meta = {key: item for key, item in whole["metadata"].items() if key not in _OWN}
        document = kept | after | {"metadata": meta | after["metadata"]}
        made: Any = read_custom(document, live.kind, live.api_version)
        return cast("T", made)
    read = decode_as(after, type(live))
    if isinstance(read, Pod) and isinstance(live, Pod) and read.spec.tolerations != live.spec.tolerations:
        tolerations = (*read.spec.tolerations, *missing_tolerations(read.spec.tolerations))
        read = replace(read, spec=replace(read.spec, tolerations=tolerations))
    changes: dict[str, Any] = {"metadata": _merged_metadata(live.metadata, read.metadata)}
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
    """Return a new object with the annotation of the manifest that it was made of.

    Parameters
    ----------
    manifest : bytes
        JSON text.
    """
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
        meta = {key: one for key, one in value["metadata"].items() if key in ("labels", "annotations")}
        spec = value.get("spec", {})
        kept = {key: one for key, one in spec.items() if key not in _WRITTEN}
        return value | {"metadata": meta} | ({"spec": kept} if spec else {})
    return {}


def _drop_computed(value: dict[str, Any], manifests: tuple[dict[str, Any], ...]) -> None:
    """Drop the priority of a template that follows from its class, unless a manifest names it."""
    spec = _template_spec(value)
    for key in _COMPUTED:
        if key in spec and not any(key in _template_spec(one) for one in manifests):
            del spec[key]


def _template_spec(value: Any) -> dict[str, Any]:
    for key in ("spec", "template", "spec"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _text(manifest: dict[str, Any]) -> str:
    return msgspec.json.encode(manifest, order="sorted").decode()


def _merged_metadata(live: ObjectMeta, read: ObjectMeta) -> ObjectMeta:
    return replace(
        live,
        labels=read.labels,
        annotations=read.annotations,
        owner_references=read.owner_references,
        finalizers=read.finalizers,
    )
