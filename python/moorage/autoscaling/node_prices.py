"""What nodes that are there cost, by the prices of a provider's instance types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.errors import examples
from moorage.objects import Node

from .instance_types.instance_type import InstanceType
from .instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE


def foreign_zones(nodes: Iterable[Node], types: Iterable[InstanceType]) -> list[str]:
    """Return a warning if no type is offered in a zone of the nodes, as with types of another region."""
    offered = {one.zone for kind in types for one in kind.offerings} - {""}
    there = {node.metadata.labels.get(ZONE, "") for node in nodes} - {""} if offered else set()
    if not there or there & offered:
        return []
    here, elsewhere = (examples(sorted(zones), 3) for zones in (there, offered))
    return [f"The instance types are offered in {elsewhere} alone; the nodes are in {here}."]


def price_of_nodes(nodes: Iterable[Node], types: Sequence[InstanceType]) -> tuple[float, int]:
    """Return the sum of the prices per hour, and how many nodes have no price.

    A node costs what the offering of its type, zone and capacity type does; one without a label for
    the capacity type counts as on demand.
    """
    prices: dict[tuple[str, str, str], float] = {}
    for kind in types:
        for one in kind.offerings:
            key = kind.name, one.zone, one.capacity_type
            prices[key] = min(one.price, prices.get(key, one.price))
    total, unknown = 0.0, 0
    for node in nodes:
        labels = node.metadata.labels
        capacity_type = labels.get(CAPACITY_TYPE) or "on-demand"
        price = prices.get((labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), capacity_type))
        total, unknown = total + (price or 0.0), unknown + (price is None)
    return total, unknown
