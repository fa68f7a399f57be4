"""Amounts of resources as quantities, for texts."""

from __future__ import annotations

from moorage._core.base.quantity import Quantity

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")


def unit(resource: str) -> str:
    """Return the unit in which a resource is counted.

    Parameters
    ----------
    resource : str

    Returns
    -------
    str
    """
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount of a resource as the shortest quantity, in binary multiples for bytes.

    Parameters
    ----------
    resource : str
    amount : int
        Millicores, bytes, or the resource's own unit.

    Returns
    -------
    str
    """
    match unit(resource):
        case "millicores":
            return str(Quantity(f"{amount}m") + _ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)
