"""Of what new nodes ``moorage plan nodes`` makes its plan, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from moorage.answers.new_nodes import NodesNeeded
from moorage.answers.scheduler import Scheduler
from moorage.autoscalers.group_settings import nodes_of_groups
from moorage.autoscalers.karpenter.claim_template import idle_pools
from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
from moorage.autoscalers.karpenter.provisioning import stored_pools
from moorage.autoscalers.launched_nodes import PoolTemplates, pool_templates
from moorage.autoscalers.providers.instance_type import POOL, refuse_unoffered
from moorage.autoscalers.providers.pool_types import ProvidedTypes, Types, stored_types
from moorage.autoscalers.providers.prices import foreign_zones, prices_by
from moorage.autoscalers.scaling_rounds import GroupScaler, Growth, scale_up
from moorage.errors import InputError, number_of
from moorage.kube import Node, NodePool, Pod, Quantity

NO_TEMPLATE = "no node group has a node or a template"


class NewNodeKinds(PoolTemplates):
    """Templates of NodePools and node groups.

    Attributes
    ----------
    room : dict of str to int
        How many nodes a group may get, by the name of its template.
    notes : list of str
        About the types.
    """

    room: dict[str, int] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    def told(self, scheduler: Scheduler, found: NodesNeeded, growth: Growth | None) -> NodesNeeded:
        """Return a plan with the limits of pools and groups that it exceeds, and notes about the types that
        were tried, and about what autoscalers would do for the pending pods, if it is asked."""
        tried = f"The plan tries {self.tried} of {number_of(self.types, 'type', 'types')} of the NodePools."
        notes = (*self.notes, *([tried] if self.tried else ()))
        if growth is not None and growth.groups is not None:
            notes = (*notes, f"{scale_up(scheduler, growth).headline()}.")
        over = tuple(self._over_limits(scheduler, found))
        return replace(found, notes=(*found.notes, *notes), over_limits=over)

    def _over_limits(self, scheduler: Scheduler, found: NodesNeeded) -> Iterator[str]:
        """Yield the limits of pools and groups that a plan exceeds."""
        listed: list[Node] = scheduler.client.list(Node)[0]
        plans: dict[str, Mapping[str, int]] = {"the fewest nodes": found.counts}
        plans |= {} if found.cheapest in (None, found.counts) else {"the cheapest plan": found.cheapest or {}}
        pools: list[NodePool] = scheduler.client.list(NodePool)[0]
        for what, counts in plans.items():
            for name, room in self.room.items():
                if counts[name] > room:
                    yield f"{what} would be {counts[name]} more of node group {name}, maxSize allows {room}"
            new = [node for node in self.nodes for _ in range(counts[node.name])]
            for pool in pools:
                own = [one for one in (*listed, *new) if one.metadata.labels.get(POOL) == pool.name]
                for name, limit in pool.spec.limits.items():
                    amounts = [Quantity(one.status.capacity.get(name, 0)) for one in own]
                    used = Quantity(len(own)) if name == "nodes" else sum(amounts, Quantity("0"))
                    if used > Quantity(limit):
                        yield f"{what} would exceed the limit {name} {limit} of NodePool {pool.name}: {used}"


def kinds_of_new_nodes(scheduler: Scheduler, pods: Sequence[tuple[Pod, int]], growth: Growth) -> NewNodeKinds:
    """Return templates of the NodePools and node groups for pods, by default the pending ones.

    Raises
    ------
    InputError
        There are none, or none has an instance type or a node.
    """
    pools = stored_pools(scheduler.client)
    if not pools and growth.groups is None:
        raise InputError("name a node to copy, or give an input with NodePools, or node groups")
    nodes: list[Node] = scheduler.client.list(Node)[0]
    types = stored_types(growth.types, scheduler.client)
    asked = [pod for pod, count in pods for _ in range(count)] or [*scheduler.pods.pending.values()]
    options = growth.options or KarpenterOptions()
    grouped = nodes_of_groups(growth.groups, nodes).values() if growth.groups is not None else ()
    refuse_unoffered(options.unavailable, types.every(), chain.from_iterable(grouped))
    made = pool_templates(pools, types, asked, scheduler.cache.state.classes.gates, options)
    found = NewNodeKinds(made.nodes, made.prices, made.types, made.tried)
    found.notes += [f"{types.source[:1].upper()}{types.source[1:]}."] if types.source else []
    found.notes += [f"{text}." for text in types.notes]
    found.notes += foreign_zones(nodes, types.every())
    if growth.groups is not None:
        scaler = GroupScaler(scheduler, growth, growth.groups)
        for group, node, room in scaler.new_nodes():
            found.nodes.append(node)
            found.room[node.name] = room
            if (price := scaler.price(group, node)) is not None:
                found.prices[node.name] = price
    if not found.nodes:
        hint = "; give types with --instance-types FILE" if pools and not types.is_priced else ""
        why = "no NodePool has an instance type that meets its requirements" if pools else NO_TEMPLATE
        if idle := idle_pools(pools):
            why += f" and makes nodes for pods ({idle})"
        raise InputError(f"{why}{hint}")
    return found


def prices_of(scheduler: Scheduler, templates: Sequence[str | Node], types: Types | None) -> dict[str, float]:
    """Return what nodes of templates cost by instance types."""
    if types is None:
        return {}
    if isinstance(types, ProvidedTypes):
        types = stored_types(types, scheduler.client).every()
    every = chain.from_iterable(types.values()) if isinstance(types, Mapping) else types
    found, price_of = dict[str, float](), prices_by(every)
    for one in templates:
        node = scheduler.client.get(Node, one.partition(",")[0]) if isinstance(one, str) else one
        if (price := price_of(node)) is not None:
            found[one if isinstance(one, str) else one.name] = price
    return found
