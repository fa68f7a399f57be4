"""Amounts of resources as Kubernetes quantities."""

from __future__ import annotations

from moorage._core.base.quantity import Quantity

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")


def quantity_text(resource: str, amount: int) -> str:
    """The shortest quantity, in binary multiples for bytes.

    Parameters
    ----------
    resource : str
    amount : int
        Millicores, bytes, or the resource's own unit.
    """
    match unit(resource):
        case "millicores":
            return str(Quantity(f"{amount}m") + _ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)


def unit(resource: str) -> str:
    """The unit in which a resource is counted."""
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"
