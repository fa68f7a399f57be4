"""Merges what a policy applies into an object, as server-side apply does: lists by their keys.

Rules: sigs.k8s.io/structured-merge-diff v6; the lists and structs are those of Kubernetes' OpenAPI.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...apiserver.merge_patch import rule_of
from ...apiserver.unknown_fields import LISTS, MAPS, fields_of, struct_of
from ...field_errors import Json

_ATOMIC = frozenset(
    {
        *("meta.v1.LabelSelector", "meta.v1.OwnerReference", "autoscaling.v1.CrossVersionObjectReference"),
        *("autoscaling.v2.CrossVersionObjectReference", "rbac.v1.RoleRef", "rbac.v1.Subject"),
        "discovery.v1.EndpointPort",
        *(
            f"core.v1.{name}"
            for name in (
                *("ObjectReference", "LocalObjectReference", "TypedLocalObjectReference", "SecretReference"),
                *("ConfigMapKeySelector", "SecretKeySelector", "ObjectFieldSelector", "FileKeySelector"),
                *("ResourceFieldSelector", "NodeSelector", "NodeSelectorTerm", "TopologySelectorTerm"),
                *("ScopeSelector", "ScopedResourceSelectorRequirement", "EndpointAddress", "EndpointPort"),
            )
        ),
    }
)
"""Structs that are set as a whole."""
_ATOMIC_MAPS = {
    "core.v1.PodSpec": ("nodeSelector",),
    "core.v1.ReplicationControllerSpec": ("selector",),
    "core.v1.ServiceSpec": ("selector",),
}
"""Maps that are set as a whole, by struct."""
_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    **{
        (f"core.v1.{name}", "ports"): ("containerPort", "protocol")
        for name in ("Container", "EphemeralContainer")
    },
    ("core.v1.ServiceSpec", "ports"): ("port", "protocol"),
    ("core.v1.PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("core.v1.ResourceRequirements", "claims"): ("name",),
}
"""Keys of lists, where they are others than those of a strategic merge patch."""
_KEY_DEFAULTS = {"protocol": "TCP"}


def atomic_parts(value: Any, kind: str, api_version: str) -> list[str]:
    """Return the paths of lists, maps and structs in a value that can only be set as a whole."""
    return [*_atomic(value, struct_of(kind, api_version), "")]


def _atomic(value: Any, struct: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    if struct in _ATOMIC:
        yield path
    fields = fields_of(struct) if struct else {}
    for name, item in value.items():
        target, at = fields.get(name, ""), f"{path}.{name}"
        part = target.rstrip(LISTS + MAPS)
        if isinstance(item, list):
            if _keys(struct, name) is None:
                yield at
            for index, element in enumerate(item):
                yield from _atomic(element, part, f"{at}[{index}]")
        else:
            if name in _ATOMIC_MAPS.get(struct, ()):
                yield at
            yield from _atomic(item, part, at)


def _keys(struct: str, name: str) -> tuple[str, ...] | None:
    """The keys of the items of a list; none for a set, None for a list that is set as a whole."""
    if (keys := _KEYS.get((struct, name))) is not None:
        return keys
    rule = rule_of(struct, name)
    return ((rule.key,) if rule.key else ()) if rule.merges else None


def applied(value: Json, patch: Json, kind: str, api_version: str) -> Json:
    """Return an object with what a patch without atomic parts sets."""
    return _merged(value, patch, struct_of(kind, api_version))


def _merged(value: Json, patch: Json, struct: str) -> Json:
    fields = fields_of(struct) if struct else {}
    result = dict(value)
    for name, item in patch.items():
        target, old = fields.get(name, ""), value.get(name)
        part = target.rstrip(LISTS + MAPS)
        if isinstance(item, dict) and isinstance(old, dict):
            result[name] = _merged(old, item, part)
        elif isinstance(item, list) and isinstance(old, list):
            keys = _keys(struct, name)
            result[name] = item if keys is None else _merged_lists(old, item, keys, part)
        else:
            result[name] = item
    return result


def _merged_lists(old: list[Any], new: list[Any], keys: Sequence[str], struct: str) -> list[Any]:
    """The items of both lists: those that are in the old one alone come before the next of the new one."""
    wanted = {_key(item, keys): item for item in new}
    before = {_key(item, keys): item for item in old}
    result, left = list[Any](), list(wanted)
    for key, item in before.items():
        if key not in wanted:
            result.append(item)
        elif key in left:
            while left:
                first = left.pop(0)
                result.append(_item(before.get(first), wanted[first], struct))
                if first == key:
                    break
    return [*result, *(_item(before.get(key), wanted[key], struct) for key in left)]


def _item(old: Any, new: Any, struct: str) -> Any:
    return _merged(old, new, struct) if isinstance(old, dict) and isinstance(new, dict) else new


def _key(item: Any, keys: Sequence[str]) -> tuple[Any, ...]:
    if not keys or not isinstance(item, dict):
        return (item,)
    return tuple([item.get(key, _KEY_DEFAULTS.get(key)) for key in keys])
