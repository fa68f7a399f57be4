"""Offerings that a provider does not launch, as if it had lately run out of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moorage.errors import InputError

from .instance_type import InstanceType, Offering

Shortage = frozenset[str]
"""Capacity type, instance type and zone of the offerings; what is left out may be any."""


def shortage_of(text: str) -> Shortage:
    """Read a shortage such as ``spot``, ``m5.large/us-west-2a`` or ``spot/m5.large``."""
    return frozenset(text.split("/"))


def is_short(kind: InstanceType, offering: Offering, shortages: Iterable[Shortage]) -> bool:
    """Whether an offering of a type is among those that are gone."""
    named = {kind.name, offering.zone, offering.capacity_type}
    return any(one <= named for one in shortages)


def with_shortages(kind: InstanceType, shortages: Iterable[Shortage]) -> InstanceType:
    """Return a type whose offerings are not available where they are gone; the type itself if none is.

    They stay in the list: nodes of them do not drift, keep their price, and their zones still count."""
    short = [is_short(kind, one, shortages) for one in kind.offerings]
    if not any(short):
        return kind
    offerings = zip(kind.offerings, short, strict=True)
    return replace(
        kind,
        offerings=tuple([replace(one, available=False) if is_gone else one for one, is_gone in offerings]),
    )


def refuse_unoffered(shortages: Iterable[Shortage], types: Iterable[InstanceType]) -> None:
    """Refuse a shortage of what no type is offered as.

    Raises
    ------
    InputError
        Such as for a misspelt zone.
    """
    every = list(types)
    for one in shortages:
        if not any(is_short(kind, offering, (one,)) for kind in every for offering in kind.offerings):
            hint = "write a capacity type, an instance type or a zone of the types, or several with / between"
            raise InputError(
                f"no instance type is offered as {'/'.join(sorted(one))}; {hint}", source="--unavailable"
            )
