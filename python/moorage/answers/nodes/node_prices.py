"""What nodes cost per hour, how much of that is idle, and which part of it pods take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from moorage.cluster import PodScheduler
from moorage.kube import NodePool, Pod
from moorage.kube.model.node import INSTANCE_TYPE, REGION, Node
from moorage.notes import RoutineNote
from moorage.store import ObjectClient

from .driver_devices import DriverDevices

if TYPE_CHECKING:
    from moorage.autoscalers.providers.pool_types import Types

PriceOf = Callable[[Node], float | None]


class PaidRoom:
    """The price of nodes, of which the part that pods do not request is idle.

    A node counts by the largest of the requested shares of its cpu, its memory and each of its extended
    resources, and of the devices of each driver: who has all of its GPUs leaves nothing idle. The rest of the
    price is that of its pods, by the largest share of each.

    Parameters
    ----------
    price_of : callable
        None of a node whose price is not known.
    """

    def __init__(self, scheduler: PodScheduler, price_of: PriceOf) -> None:
        self._state, self._objects, self._price_of = scheduler.cache.state, scheduler.table.objects, price_of
        names = [name for name in scheduler.table.allocatable if name in ("cpu", "memory") or "/" in name]
        self._columns = {
            name: [scheduler.table.column(kind, name) for kind in ("requested", "allocatable")]
            for name in names
        }
        self.devices = DriverDevices(scheduler.client).of_nodes()

    def of(self, row: int) -> tuple[float, float] | None:
        """Return the price of a node, and the part of it that is idle."""
        node = self._objects[row]
        if node is None or (price := self._price_of(node)) is None:
            return None
        shares = [requested[row] / whole[row] for requested, whole in self._columns.values() if whole[row]]
        shares += [sum(of.held.values()) / len(of.every) for of in self.devices.get(node.name, {}).values()]
        return price, price * max(1 - float(max(shares, default=0)), 0)

    def parts(self, rows: Iterable[int]) -> Iterator[tuple[Pod, float]]:
        """Yield the pods of nodes whose price is known, and what each takes of it."""
        for row in rows:
            if (known := self.of(row)) is not None:
                price, idle = known
                shares = [(pod, self._share(pod, row)) for pod in self._state.pods_of(row)]
                total = sum(share for _, share in shares) or 1.0
                yield from ((pod, (price - idle) * share / total) for pod, share in shares)

    def _share(self, pod: Pod, row: int) -> float:
        needs = self._state.classes.shape_of(self._state.classes.intern(pod)).needs
        shares = [needs.get(name, 0) / whole[row] for name, (_, whole) in self._columns.items() if whole[row]]
        node = self._objects[row]
        devices = {} if node is None else self.devices.get(node.name, {})
        shares += [of.held[pod.key] / len(of.every) for of in devices.values()]
        return float(max(shares, default=0))


def node_prices(client: ObjectClient, types: Types | None) -> tuple[PriceOf, str]:
    """Return what a node costs, None if that is not known, and where prices are from.

    Without types it is what those of the NodePools cost, and what AWS lists on demand, where the region of a
    node is in its list.
    """
    of_types = _prices_of(client, types)
    nodes: list[Node] = client.list(Node)[0]
    others = [node for node in nodes if of_types(node) is None]
    listed, terms = _listed_by_aws(others) if types is None else ({}, "")
    short = f"prices that AWS lists on demand ({terms})"
    source = RoutineNote(f"Prices are those{short.removeprefix('prices')}.", short) if listed else ""
    if types is not None and nodes and not any(of_types(node) is not None for node in nodes):
        source = "No node has a price: the instance types that are given have none of their types and zones."
    return (lambda node: listed[node.name] if node.name in listed else of_types(node)), source


def _prices_of(client: ObjectClient, types: Types | None) -> PriceOf:
    """Return what a node costs by the instance types that are given, or that NodePools have."""
    if types is None and not client.list(NodePool)[0]:
        return lambda node: None
    from moorage.autoscalers.providers.instance_type import InstanceType
    from moorage.autoscalers.providers.pool_types import ProvidedTypes, stored_types
    from moorage.autoscalers.providers.prices import prices_by

    every: Iterable[InstanceType] = stored_types(types, client).every()  # also checks them
    if types is not None and not isinstance(types, ProvidedTypes):
        every = chain.from_iterable(types.values()) if isinstance(types, Mapping) else types
    return prices_by(every)


def _listed_by_aws(nodes: Sequence[Node]) -> tuple[dict[str, float], str]:
    """The prices on demand of nodes in regions of AWS of which there is a list, and its date and currency,
    unless that is the dollar."""
    regions = {
        node.name: node.metadata.labels.get(REGION, "")
        for node in nodes
        if node.spec.provider_id.startswith("aws:")
    }
    if not regions:
        return {}, ""
    from moorage.autoscalers.providers.aws.ec2_answers import DATE, price_list
    from moorage.autoscalers.providers.instance_type import node_offered_as

    lists = {region: price_list(region) for region in {*regions.values()}}
    prices, terms = dict[str, float](), DATE
    for node in nodes:
        if "spot" in node_offered_as(node):
            continue
        region, kind = regions.get(node.name), node.metadata.labels.get(INSTANCE_TYPE, "")
        if region and (listed := lists[region]).region == region and kind in listed.prices:
            prices[node.name] = listed.prices[kind]
            if listed.currency != "USD":
                terms = f"{DATE}, in yuan, also where $ stands"
    return prices, terms
