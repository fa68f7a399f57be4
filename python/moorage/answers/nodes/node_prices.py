"""What nodes cost per hour, how much of that is idle, and which part of it pods take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from moorage.cluster import PodScheduler
from moorage.kube import NodePool, Pod
from moorage.kube.model.node import Node
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
    nodes: list[Node] = client.list(Node)[0]
    of_types, about = _prices_of(client, types)
    others = [node for node in nodes if types is None and of_types(node) is None]
    listed, source = dict[str, float](), ""
    if any(node.spec.provider_id.startswith("aws:") for node in others):
        from moorage.autoscalers.providers.aws.ec2_answers import listed_prices

        listed, about = listed_prices(others)
    if listed or (about and types is not None):
        source = RoutineNote(f"{about.replace('prices that', 'Prices are those that')}.", about)
    if types is not None and nodes and not any(of_types(node) is not None for node in nodes):
        source = "No node has a price: the instance types that are given have none of their types and zones."
    return (lambda node: listed[node.name] if node.name in listed else of_types(node)), source


def _prices_of(client: ObjectClient, types: Types | None) -> tuple[PriceOf, str]:
    """Return what a node costs by the instance types that are given, or that NodePools have, and where the
    prices are from if there is no NodePool."""
    has_pools = bool(client.list(NodePool)[0])
    if types is None and not has_pools:
        return lambda node: None, ""
    from moorage.autoscalers.providers.pool_types import stored_types
    from moorage.autoscalers.providers.prices import prices_by

    known = stored_types(types, client)  # also checks them
    return prices_by(known.every()), "" if has_pools else known.source
