"""What nodes cost per hour, how much of that is idle, and which part of it pods take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from moorage.autoscalers.hourly_cost import HourlyCost
from moorage.cluster import PodScheduler
from moorage.kube import NodePool, Pod
from moorage.kube.model.node import INSTANCE_TYPE, Node
from moorage.store import ObjectClient

from .driver_devices import DriverDevices

if TYPE_CHECKING:
    from moorage.autoscalers.group_settings import NodeGroup
    from moorage.autoscalers.providers.pool_types import Types

PriceOf = Callable[[Node], HourlyCost]


def unknown_price(node: Node) -> HourlyCost:
    """Return the price of a node of which none is known."""
    return HourlyCost()


class PaidRoom:
    """The price of nodes, of which the part that pods do not request is idle.

    A node counts by the largest of the requested shares of its cpu, its memory and each of its extended
    resources, and of the devices of each driver: who has all of its GPUs leaves nothing idle. The rest of the
    price is that of its pods, by the largest share of each.

    Parameters
    ----------
    price_of : callable
        What a node costs.
    """

    def __init__(self, scheduler: PodScheduler, price_of: PriceOf) -> None:
        self._state, self._objects, self._price_of = scheduler.cache.state, scheduler.table.objects, price_of
        names = [name for name in scheduler.table.allocatable if name in ("cpu", "memory") or "/" in name]
        self._columns = {
            name: [scheduler.table.column(kind, name) for kind in ("requested", "allocatable")]
            for name in names
        }
        self.devices = DriverDevices(scheduler.client).of_nodes()

    def of(self, row: int) -> tuple[HourlyCost, float] | None:
        """Return the price of a node, and the share of it that is idle."""
        node = self._objects[row]
        if node is None or not (price := self._price_of(node)).is_known:
            return None
        shares = [requested[row] / whole[row] for requested, whole in self._columns.values() if whole[row]]
        shares += [sum(of.held.values()) / len(of.every) for of in self.devices.get(node.name, {}).values()]
        return price, max(1 - float(max(shares, default=0)), 0.0)

    def parts(self, rows: Iterable[int]) -> Iterator[tuple[Pod, HourlyCost]]:
        """Yield the pods of nodes whose price is known, and what each takes of it."""
        for row in rows:
            if (known := self.of(row)) is not None:
                price, idle = known
                shares = [(pod, self._share(pod, row)) for pod in self._state.pods_of(row)]
                total = sum(share for _, share in shares) or 1.0
                parts = [(pod, (1 - idle) * share / total) for pod, share in shares]
                yield from ((pod, HourlyCost(*[part * each for each in price])) for pod, part in parts)

    def _share(self, pod: Pod, row: int) -> float:
        needs = self._state.classes.shape_of(self._state.classes.intern(pod)).needs
        shares = [needs.get(name, 0) / whole[row] for name, (_, whole) in self._columns.items() if whole[row]]
        node = self._objects[row]
        devices = {} if node is None else self.devices.get(node.name, {})
        shares += [of.held[pod.key] / len(of.every) for of in devices.values()]
        return float(max(shares, default=0))


def price_fields(prices: Sequence[HourlyCost], number: int) -> dict[str, Any]:
    """Return the fields of rows about the prices that are known, of a number of nodes or pods; none of them
    where none is."""
    if not prices:
        return {}
    most, least = HourlyCost.total(prices).shown
    unpriced = (number - len(prices)) or UNSET
    return {"price": most, "least": least, "unpriced": unpriced}


def node_prices(
    client: ObjectClient,
    types: Types | None,
    groups: Sequence[NodeGroup] = (),
    of: Iterable[Node] | None = None,
) -> tuple[PriceOf, list[str]]:
    """Return what a node costs, and notes: what the prices of some nodes rest on; by default of those of the
    cluster."""
    nodes: list[Node] = [*client.list(Node)[0]] if of is None else [*of]
    names_types = any(INSTANCE_TYPE in node.metadata.labels for node in nodes)
    if types is None and not (groups or names_types or client.list(NodePool)[0]):
        return unknown_price, []
    from moorage.autoscalers.node_prices import stored_prices

    prices = stored_prices(types, client, groups)
    if types is not None and nodes and not any(prices.of(node).is_known for node in nodes):
        why = "the instance types that are given have none of their types and zones"
        return prices.of, [f"No node has a price: {why}."]
    return prices.of, prices.notes(nodes)
