"""Properties of a device that requests ask about besides expressions: its taints and attributes."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.kube.model.resource_claims import DeviceToleration
from moorage.kube.model.resource_slices import DeviceAttribute, DeviceTaint

from .allocation.device_pools import PublishedDevice

_PREVENTING = ("NoSchedule", "NoExecute")


def tolerates_taints(tolerations: Sequence[DeviceToleration], taints: Sequence[DeviceTaint]) -> bool:
    """Whether tolerations fit all taints that prevent an allocation."""
    return all(
        any(_fits(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _PREVENTING
    )


def _fits(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def find_attribute(device: PublishedDevice, name: str) -> DeviceAttribute | None:
    """Return an attribute by its full name, or by its name alone if its domain is the driver.

    Parameters
    ----------
    name : str
        ``domain/name``.
    """
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.id[0] else None


def comparable_value(attribute: DeviceAttribute) -> tuple[str, object] | None:
    """Return type and value of an attribute, by which constraints compare it.

    Returns
    -------
    (str, object) or None
        None for a list, which equals nothing.
    """
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return None if attribute.version is None else ("version", attribute.version)
