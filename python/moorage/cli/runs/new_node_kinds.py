"""Of what new nodes ``moorage plan nodes`` makes its plan, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from moorage.autoscaling import read_instance_types, seen_types
from moorage.autoscaling.instance_types.labels import POOL
from moorage.autoscaling.node_prices import price_of_nodes
from moorage.autoscaling.pool_templates import PoolTemplates, pool_templates
from moorage.errors import InputError, number_of
from moorage.facade import Scheduler
from moorage.objects import Node, NodePool, Pod, Quantity
from moorage.planning.new_nodes.node_demand import NodesNeeded


@dataclass
class PoolKinds(PoolTemplates):
    """Templates of NodePools."""

    def told(self, scheduler: Scheduler, found: NodesNeeded) -> NodesNeeded:
        """Return a plan with notes about the types that were tried, and about limits of pools."""
        tried = f"The plan tries {self.tried} of {number_of(self.types, 'type', 'types')} of the NodePools."
        return replace(found, notes=(*found.notes, tried, *self._over_limits(scheduler, found)))

    def _over_limits(self, scheduler: Scheduler, found: NodesNeeded) -> Iterator[str]:
        """Yield the limits of pools that a plan exceeds."""
        listed: list[Node] = scheduler.client.list(Node)[0]
        plans: dict[str, Mapping[str, int]] = {"the fewest nodes": found.counts}
        plans |= {} if found.cheapest in (None, found.counts) else {"the cheapest plan": found.cheapest or {}}
        pools: list[NodePool] = scheduler.client.list(NodePool)[0]
        for what, counts in plans.items():
            new = [node for node in self.nodes for _ in range(counts[node.name])]
            for pool in pools:
                own = [one for one in (*listed, *new) if one.metadata.labels.get(POOL) == pool.name]
                for name, limit in pool.spec.limits.items():
                    amounts = [Quantity(one.status.capacity.get(name, 0)) for one in own]
                    used = Quantity(len(own)) if name == "nodes" else sum(amounts, Quantity("0"))
                    if used > Quantity(limit):
                        yield f"NodePool {pool.name}: {what} would exceed the limit {name} {limit}: {used}."


def kinds_of_pools(
    scheduler: Scheduler, pods: Sequence[tuple[Pod, int]], types_file: str | None
) -> PoolKinds:
    """Return templates of the NodePools for pods, by default the pending ones.

    Raises
    ------
    InputError
        There is no NodePool, or none has an instance type.
    """
    pools: list[NodePool] = scheduler.client.list(NodePool)[0]
    if not pools:
        raise InputError("give templates of new nodes, or an input with NodePools")
    nodes: list[Node] = scheduler.client.list(Node)[0]
    given = None if types_file is None else read_instance_types(types_file)
    types = seen_types(nodes) if given is None else {pool.name: given for pool in pools}
    asked = [pod for pod, count in pods for _ in range(count)] or [*scheduler.pods.pending.values()]
    found = pool_templates(pools, types, asked, scheduler.cache.state.classes.gates)
    if not found.nodes:
        hint = "" if given is not None else "; give types with --instance-types FILE"
        raise InputError(f"no NodePool has an instance type that meets its requirements{hint}")
    return PoolKinds(found.nodes, found.prices, found.types, found.tried)


def prices_of(
    scheduler: Scheduler, templates: Sequence[str | Node], types_file: str | None
) -> dict[str, float]:
    """Return what nodes of templates cost by the types of a file."""
    if types_file is None:
        return {}
    types, found = read_instance_types(types_file), dict[str, float]()
    for one in templates:
        node = scheduler.client.get(Node, one.partition(",")[0]) if isinstance(one, str) else one
        price, unknown = price_of_nodes([node], types)
        if not unknown:
            found[one if isinstance(one, str) else one.name] = price
    return found
