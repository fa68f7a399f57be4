"""Reads v1alpha3, v1beta1 and v1beta2 of resource.k8s.io into v1.

v1beta2 has the fields of v1. In v1beta1, and in v1alpha3 as it was last, an exact request stands in the
request itself, and the properties of a device in the field ``basic``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model.resource_claims import API_VERSION

GROUP = "resource.k8s.io"
_ALPHA3 = f"{GROUP}/v1alpha3"
_BETA1 = f"{GROUP}/v1beta1"
_BETA2 = f"{GROUP}/v1beta2"
_EXACT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def to_v1(value: dict[str, Any], kind: str) -> dict[str, Any]:
    """Convert an object of an earlier version.

    Parameters
    ----------
    value : dict
        The JSON value of an object; fields of a wrong type are left to the decoder.
    kind : str
        Its kind.

    Returns
    -------
    dict
        `value` itself if it is of no earlier version.
    """
    version = value.get("apiVersion")
    if version not in (_ALPHA3, _BETA1, _BETA2) or kind == "DeviceTaintRule":
        return value
    converted = value | {"apiVersion": API_VERSION}
    if version != _BETA2 and kind in _CONVERSIONS and isinstance(value.get("spec"), dict):
        converted["spec"] = _CONVERSIONS[kind](value["spec"])
    return converted


def _claim(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed(spec, "devices", lambda devices: _changed_each(devices, "requests", _request))


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed(spec, "spec", _claim)


def _slice(spec: dict[str, Any]) -> dict[str, Any]:
    return _changed_each(spec, "devices", _device)


def _request(request: dict[str, Any]) -> dict[str, Any]:
    exact = {key: request[key] for key in _EXACT if key in request}
    rest = {key: item for key, item in request.items() if key not in exact}
    return rest | {"exactly": exact} if exact.get("deviceClassName") else rest


def _device(device: dict[str, Any]) -> dict[str, Any]:
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {key: item for key, item in device.items() if key != "basic"} | basic


def _changed(value: dict[str, Any], key: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy with the map of a key changed; `value` itself if there is no such map."""
    part = value.get(key)
    return value | {key: change(part)} if isinstance(part, dict) else value


def _changed_each(value: dict[str, Any], key: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy with each map of the list of a key changed; `value` itself if there is no such list."""
    items = value.get(key)
    if not isinstance(items, list):
        return value
    return value | {key: [change(item) if isinstance(item, dict) else item for item in items]}


_CONVERSIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "ResourceSlice": _slice,
}
