"""The instance types that Karpenter's provider for AWS lists for a pool with an EC2NodeClass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from moorage.autoscalers.instance_types.instance_type import InstanceType

from .ec2_offerings import Market, offerings
from .ec2_types import Ec2Type, ProviderTables
from .node_capacity import BadExpressionError, NodeCapacity
from .node_class import NodeClass, ProviderOptions
from .type_labels import type_requirements

_NO_TABLES = ProviderTables()


def instance_types(
    kinds: Iterable[Ec2Type],
    tables: Mapping[str, ProviderTables],
    node_class: NodeClass,
    market: Market,
    options: ProviderOptions,
) -> Iterator[InstanceType]:
    """Yield what types are under a node class; not those without an architecture that nodes can have."""
    for kind in kinds:
        name = kind.instance_type
        own_tables = tables.get(name, _NO_TABLES)
        reserved = [one for one in node_class.status.capacity_reservations if one.instance_type == name]
        place = market.region, market.zones_for(kind, node_class)
        rules = NodeCapacity(kind, own_tables, node_class, options)
        if not kind.architecture:
            continue
        try:
            capacity, overhead = rules.capacity(), rules.overhead()
        except BadExpressionError:
            continue
        yield InstanceType(
            name,
            capacity,
            tuple(offerings(kind, node_class, market, reserved)),
            type_requirements(kind, own_tables, node_class, place, reserved),
            overhead,
        )
