"""What nodes that are there cost, by the prices of a provider's instance types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from moorage.errors import examples, number_of
from moorage.kube import Node

from .instance_types.instance_type import InstanceType
from .instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE


class NodesPrice(NamedTuple):
    """How many nodes there are, their price per hour, and how many have no known price."""

    nodes: int
    price: float
    unknown: int

    @classmethod
    def of(cls, prices: Sequence[float | None]) -> NodesPrice:
        known = [price for price in prices if price is not None]
        return cls(len(prices), sum(known), len(prices) - len(known))

    def __str__(self) -> str:
        nodes = number_of(self.nodes, "node", "nodes")
        if self.unknown == self.nodes:
            return nodes if not self.nodes else f"{nodes} of unknown price"
        unknown = f" without {self.unknown} of unknown price" if self.unknown else ""
        return f"{nodes} at {self.price:.2f} $/h{unknown}"


def foreign_zones(nodes: Iterable[Node], types: Iterable[InstanceType]) -> list[str]:
    """Return a warning if no type is offered in a zone of the nodes, as with types of another region."""
    offered = {one.zone for kind in types for one in kind.offerings} - {""}
    there = {node.metadata.labels.get(ZONE, "") for node in nodes} - {""} if offered else set()
    if not there or there & offered:
        return []
    here, elsewhere = (examples(sorted(zones), 3) for zones in (there, offered))
    return [f"The instance types are offered in {elsewhere} alone; the nodes are in {here}."]


def prices_by(types: Iterable[InstanceType]) -> Callable[[Node], float | None]:
    """Return what a node costs per hour; None if that is not known.

    A node costs what the cheapest offering of its type, zone and capacity type does; one without a label for
    the capacity type counts as on demand.
    """
    prices: dict[tuple[str, str, str], float] = {}
    for kind in types:
        for one in kind.offerings:
            key = kind.name, one.zone, one.capacity_type
            if isfinite(one.price):
                prices[key] = min(one.price, prices.get(key, one.price))

    def price_of(node: Node) -> float | None:
        labels = node.metadata.labels
        capacity_type = labels.get(CAPACITY_TYPE) or "on-demand"
        return prices.get((labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), capacity_type))

    return price_of
