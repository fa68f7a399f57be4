"""Amounts of resources as Kubernetes quantities."""

from __future__ import annotations

from moorage.objects.model.quantity import Quantity

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")


def amount_text(resource: str, amount: int) -> str:
    """The shortest quantity: of millicores for cpu, in binary multiples for bytes, the number otherwise."""
    if resource == "cpu":
        return str(Quantity(f"{amount}m") + _ZERO)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)
