"""Converts objects to JSON values."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec.structs import fields

from .model.meta import Object, Struct
from .model.policy import NO_STATUS, PodDisruptionBudget
from .model.workload import PodTemplateSpec


@cache
def _fields(struct: type[Struct]) -> list[tuple[str, str, Any]]:
    """Fields of a struct: attribute, wire name, default."""
    default = struct()
    infos = [info for info in fields(struct) if not info.encode_name.startswith("$")]
    return [(info.name, info.encode_name, getattr(default, info.name)) for info in infos]


def plain(value: Any) -> Any:
    """Convert to maps, lists and scalars; fields with their default value are omitted.

    Parameters
    ----------
    value : object
        A struct, a tuple or map of structs, or a JSON value.

    Returns
    -------
    object
        A JSON value. A pod template has all its fields, also those that scheduling does not read.
    """
    if isinstance(value, Struct):
        read = {
            wire: plain(item)
            for name, wire, absent in _fields(type(value))
            if (item := getattr(value, name)) != absent
        }
        if isinstance(value, PodTemplateSpec) and value.unread:
            return joined(read, {"spec": msgspec.json.decode(value.unread)})
        return read
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict) and isinstance(next(iter(value.values()), None), Struct | dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def joined(read: Any, unread: Any) -> Any:
    """Return a value with the fields that it lacks; items of lists are joined by name, or in their order."""
    if isinstance(read, dict) and isinstance(unread, dict):
        more = {key: joined(read.get(key), item) for key, item in unread.items() if item is not None}
        return read | more
    if isinstance(read, list) and isinstance(unread, list):
        maps = (item for item in unread if isinstance(item, dict))
        named = {name: item for item in maps if isinstance(name := item.get("name"), str) and name}
        if named:
            return [joined(item, named.get(item.get("name"))) for item in read]
        return [joined(*pair) for pair in zip(read, unread, strict=False)] + read[len(unread) :]
    return unread if read is None else read


def object_to_dict(obj: Object) -> dict[str, Any]:
    """Convert an object to a JSON value, ``apiVersion`` and ``kind`` first; empty fields are omitted.

    Returns
    -------
    dict
        JSON object.
    """
    value: dict[str, Any] = plain(obj)
    if isinstance(obj, PodDisruptionBudget) and obj.status is not NO_STATUS:
        value.setdefault("status", {})  # an empty status differs from a missing one: see `with_statuses`
    if managers := obj.metadata.managed_fields:
        value["metadata"]["managedFields"] = msgspec.json.decode(managers)
    return {"apiVersion": obj.api_version, "kind": obj.kind} | value


def encode_object(obj: Object) -> bytes:
    """Encode an object as JSON text; the spelling of quantities is unchanged.

    Returns
    -------
    bytes
        JSON text.
    """
    return msgspec.json.encode(object_to_dict(obj))
