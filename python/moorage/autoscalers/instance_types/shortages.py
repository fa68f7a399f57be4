"""Offerings that a provider does not launch, as if it had lately run out of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moorage.errors import InputError
from moorage.kube import Node

from .instance_type import InstanceType, Offering
from .labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE

_CAPACITY_TYPE_LABELS = (
    CAPACITY_TYPE,
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
)
_SPOT_LABELS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
"""Labels of providers by which nodes of groups are known to be spot."""

Shortage = frozenset[str]
"""Capacity type, instance type and zone of the offerings; what is left out may be any."""


def shortage_of(text: str) -> Shortage:
    """Read a shortage such as ``spot``, ``m5.large/us-west-2a`` or ``spot/m5.large``."""
    return frozenset(text.split("/"))


def offered_as(kind: InstanceType, offering: Offering) -> frozenset[str]:
    """Return by what an offering of a type may be named."""
    return frozenset([kind.name, offering.zone, offering.capacity_type])


def node_offered_as(node: Node) -> frozenset[str]:
    """Return by what the offering of a node of a group may be named. Without a label of its provider for the
    capacity type it is on demand."""
    labels = node.metadata.labels
    kinds = {labels.get(key, "").lower().replace("_", "-") for key in _CAPACITY_TYPE_LABELS}
    is_spot = "spot" in kinds or any(labels.get(key) == "true" for key in _SPOT_LABELS)
    named = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), "spot" if is_spot else "on-demand"
    return frozenset(named)


def is_short(offered: frozenset[str], shortages: Iterable[Shortage]) -> bool:
    """Whether an offering is among those that are gone."""
    return any(one <= offered for one in shortages)


def with_shortages(kind: InstanceType, shortages: Iterable[Shortage]) -> InstanceType:
    """Return a type whose offerings are not available where they are gone; the type itself if none is.

    They stay in the list: nodes of them do not drift, keep their price, and their zones still count."""
    short = [is_short(offered_as(kind, one), shortages) for one in kind.offerings]
    if not any(short):
        return kind
    offerings = zip(kind.offerings, short, strict=True)
    return replace(
        kind,
        offerings=tuple([replace(one, available=False) if is_gone else one for one, is_gone in offerings]),
    )


def refuse_unoffered(
    shortages: Iterable[Shortage], types: Iterable[InstanceType], groups: Iterable[Node] = ()
) -> None:
    """Refuse a shortage of what no type is offered as, and no node of a group is.

    Raises
    ------
    InputError
        Such as for a misspelt zone.
    """
    every = {offered_as(kind, one) for kind in types for one in kind.offerings}
    every |= set(map(node_offered_as, groups))
    for one in shortages:
        if not any(is_short(offered, (one,)) for offered in every):
            hint = "write a capacity type, an instance type or a zone of the types, or several with / between"
            raise InputError(
                f"no instance type is offered as {'/'.join(sorted(one))}; {hint}", source="--unavailable"
            )
