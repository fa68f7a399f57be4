"""The instance types that the nodes of pools show, for clusters whose provider's list is not at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moorage._core.base.quantity import Quantity, parse
from moorage.kube import Node
from moorage.kube.model.node import HOSTNAME

from ..providers.registrations import DOMAINS, domain_of
from .instance_type import InstanceType, Offering
from .labels import CAPACITY_TYPE, INSTANCE_TYPE, MADE_HERE, POOL, ZONE, requirements

UNKNOWN = float("inf")
"""The price of an offering of which none is known."""
_OF_ONE_NODE = (
    *(HOSTNAME, "karpenter.sh/registered", "karpenter.sh/initialized"),
    *(INSTANCE_TYPE, ZONE, CAPACITY_TYPE, POOL, "topology.kubernetes.io/region"),
)
_SYSTEM = ("kubernetes.io/arch", "kubernetes.io/os")


def seen_types(nodes: Iterable[Node], domains: frozenset[str] = DOMAINS) -> dict[str, list[InstanceType]]:
    """Return the types of each pool's nodes, without prices, in the zones and of the capacity types that they
    have there. They have the labels below some domains that all nodes of the type share."""
    found: dict[str, dict[str, list[Node]]] = {}
    for node in nodes:
        labels = node.metadata.labels
        if labels.get(POOL) and labels.get(INSTANCE_TYPE):
            found.setdefault(labels[POOL], {}).setdefault(labels[INSTANCE_TYPE], []).append(node)
    return {
        pool: [_type(name, of_type, domains) for name, of_type in sorted(types.items())]
        for pool, types in sorted(found.items())
    }


def _type(name: str, nodes: list[Node], domains: frozenset[str]) -> InstanceType:
    """What nodes of a type have in common; the least capacity of them."""
    labels = nodes[0].metadata.labels
    common = {
        key: value
        for key, value in labels.items()
        if key not in _OF_ONE_NODE
        and (key in _SYSTEM or domain_of(key) in domains)
        and all(node.metadata.labels.get(key) == value for node in nodes)
    }
    offerings = {
        (node.metadata.labels.get(ZONE, ""), node.metadata.labels.get(CAPACITY_TYPE) or "on-demand")
        for node in nodes
    }
    capacity, left = map(dict, _shown_amounts(nodes))
    overhead = {key: amount - left[key] for key, amount in capacity.items() if key in left}
    return InstanceType(
        name,
        capacity,
        tuple([Offering(zone, kind, UNKNOWN) for zone, kind in sorted(offerings)]),
        requirements({key: (value,) for key, value in common.items()}),
        (overhead,),
    )


Amounts = tuple[tuple[str, Quantity], ...]


ShownTypes = tuple[tuple[str, Amounts, Amounts], ...]


def shown_types(nodes: Iterable[Node]) -> ShownTypes:
    """Return name, capacity and allocatable of the types of which there are nodes; those made here do not
    count."""
    by_type = dict[str, list[Node]]()
    for one in nodes:
        name = one.metadata.labels.get(INSTANCE_TYPE, "")
        if name and one.status.capacity and not one.spec.provider_id.startswith(MADE_HERE):
            by_type.setdefault(name, []).append(one)
    return tuple([(name, *_shown_amounts(of_type)) for name, of_type in sorted(by_type.items())])


def _shown_amounts(nodes: Iterable[Node]) -> tuple[Amounts, Amounts]:
    """Return the least capacity and allocatable of nodes, by resource."""
    both = [(one.status.capacity or one.status.allocatable, one.status.allocatable) for one in nodes]
    capacity = _least([_amounts(given) for given, _ in both])
    left = _least([_amounts(left or given) for given, left in both])
    return tuple(capacity.items()), tuple(left.items())


def _amounts(resources: Mapping[str, str | int | float]) -> dict[str, Quantity]:
    return {name: parse(raw) for name, raw in resources.items()}


def _least(amounts: list[dict[str, Quantity]]) -> dict[str, Quantity]:
    return {
        name: min(one[name] for one in amounts) for name in amounts[0] if all(name in one for one in amounts)
    }
