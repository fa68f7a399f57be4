"""Constraints of the twin, with the state that they keep during a search."""

from __future__ import annotations

from collections.abc import Sequence

from tests.doors.engine import PublishedDevice

from moorage.kube import DeviceAttribute


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
        attribute = find_attribute(device, self.attribute)
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
        elif (
            self._first is None
            or comparable_value(attribute) is None
            or comparable_value(attribute) != comparable_value(self._first)
        ):
            return False
        self._devices += 1
        return True

    def _remove(self, base: str) -> None:
        self._devices -= 1


class DistinctAttribute(AttributeConstraint):
    """Devices of different requests have different values.

    As in v1.36, only the last value of each request is remembered, and forgotten when any device of the
    request is given back.
    """

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, DeviceAttribute] = {}
        self._devices = 0

    def _add(self, base: str, attribute: DeviceAttribute) -> bool:
        if self._devices and self._values:
            value = comparable_value(attribute)
            if value is None or any(comparable_value(other) == value for other in self._values.values()):
                return False
        self._values[base] = attribute
        self._devices += 1
        return True

    def _remove(self, base: str) -> None:
        self._values.pop(base, None)
        self._devices -= 1


class DistinctFromAll(AttributeConstraint):
    """All devices have different values (v1.37)."""

    def __init__(self, requests: Sequence[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._attributes: list[DeviceAttribute] = []

    def _add(self, base: str, attribute: DeviceAttribute) -> bool:
        value = comparable_value(attribute)
        if self._attributes and value is None:
            return False
        if any(comparable_value(other) == value for other in self._attributes if value is not None):
            return False
        self._attributes.append(attribute)
        return True

    def _remove(self, base: str) -> None:
        self._attributes.pop()
