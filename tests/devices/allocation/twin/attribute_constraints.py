"""Constraints of the twin, with the state that they keep during a search."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.devices.allocation.device_pools import PublishedDevice
from moorage.objects.model.resource_slices import DeviceAttribute


def _value(attribute: DeviceAttribute) -> tuple[str, object] | None:
    """Type and value of an attribute; None for a list, which equals nothing."""
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    return None if attribute.version is None else ("version", attribute.version)


def _look_up(device: PublishedDevice, name: str) -> DeviceAttribute | None:
    """An attribute by its full name; by its name alone if its domain is the driver."""
    attributes = device.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    return attributes.get(identifier) if slash and domain == device.id[0] else None


class AttributeConstraint:
    """A constraint for some requests of a claim.

    Parameters
    ----------
    requests : sequence of str
        Names of requests or alternatives; empty for all.
    attribute : str
        Full name of the attribute.
    """

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        self._requests = frozenset(requests)
        self.attribute = attribute

    def applies(self, base: str, full: str) -> bool:
        """Whether the constraint is about a request, by its name and that of the alternative."""
        return not self._requests or base in self._requests or full in self._requests

    def add(self, base: str, full: str, device: PublishedDevice) -> bool:
        """Add a device if the constraint allows it.

        Parameters
        ----------
        base, full : str
            Name of the request, and of the alternative.
        device : PublishedDevice

        Returns
        -------
        bool
        """
        if not self.applies(base, full):
            return True
        attribute = _look_up(device, self.attribute)
        return attribute is not None and self._add(base, attribute)

    def remove(self, base: str, full: str) -> None:
        """Take back the last addition for a request.

        Parameters
        ----------
        base, full : str
            Name of the request, and of the alternative.
        """
        if self.applies(base, full):
            self._remove(base)

    def _add(self, base: str, attribute: DeviceAttribute) -> bool:
        raise NotImplementedError

    def _remove(self, base: str) -> None:
        raise NotImplementedError


class MatchAttribute(AttributeConstraint):
    """All devices have the value of the first one."""

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._first: DeviceAttribute | None = None
        self._devices = 0

    def _add(self, base: str, attribute: DeviceAttribute) -> bool:
        if self._devices == 0:
            self._first = attribute
        elif self._first is None or _value(attribute) is None or _value(attribute) != _value(self._first):
            return False
        self._devices += 1
        return True

    def _remove(self, base: str) -> None:
        self._devices -= 1


class DistinctAttribute(AttributeConstraint):
    """Devices of different requests have different values.

    As upstream, only the last value of each request is remembered, and forgotten when any device of the
    request is given back.
    """

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, DeviceAttribute] = {}
        self._devices = 0

    def _add(self, base: str, attribute: DeviceAttribute) -> bool:
        if self._devices and self._values:
            value = _value(attribute)
            if value is None or any(_value(other) == value for other in self._values.values()):
                return False
        self._values[base] = attribute
        self._devices += 1
        return True

    def _remove(self, base: str) -> None:
        self._values.pop(base, None)
        self._devices -= 1
