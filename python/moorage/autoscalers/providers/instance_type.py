"""What a provider can launch: instance types and their offerings, as lists have them and as nodes show
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TypeVar

from moorage._core.base.quantity import Quantity, parse
from moorage.errors import InputError, located, shorten
from moorage.kube import Node, NodeSelectorRequirement
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.meta import total
from moorage.kube.model.node import HOSTNAME, REGION
from moorage.kube.model.node import INSTANCE_TYPE as INSTANCE_TYPE
from moorage.kube.model.node import POOL as POOL
from moorage.kube.model.node import ZONE as ZONE
from moorage.lazy import NamedTuple

from ..hourly_cost import UNKNOWN, HourlyCost
from .known_labels import DOMAINS, GKE_ACCELERATOR, domain_of

# ---- the labels of nodes that say what they are, and requirements on labels --------------------------------

CAPACITY_TYPE = "karpenter.sh/capacity-type"
MADE_HERE = "moorage:///"
"""How the provider's ID of a simulated node begins."""
RESERVED = "reserved"
"""The capacity type of an offering whose instances were paid for before."""
CAPACITY_TYPES = ("on-demand", "spot", RESERVED)


@cache
def requirement(key: str, values: tuple[str, ...]) -> NodeSelectorRequirement:
    """Return the requirement that a label has one of some values; that it does not exist for none."""
    return NodeSelectorRequirement(key=key, operator="In" if values else "DoesNotExist", values=values)


def requirements(labels: Mapping[str, Iterable[object]]) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of labels with their values; see `requirement`."""
    return tuple([requirement(key, tuple(map(str, values))) for key, values in labels.items()])


# ---- what a provider can launch: instance types, and the offerings of each ---------------------------------

INTERFACES = "vpc.amazonaws.com/"
"""How resources of a type's network are named, which nodes have only where that of the cluster is set up for
them."""


@dataclass(frozen=True)
class Offering:
    """One way to launch an instance type.

    Attributes
    ----------
    zone, capacity_type : str
        ``karpenter.sh/capacity-type`` is ``on-demand``, ``spot`` or ``reserved``.
    price : float
        Per hour.
    available : bool
        Whether the provider would launch it now.
    reservation_id : str
        Of a reserved offering.
    reservation_capacity : int
        How many instances of a reservation are left.
    requirements : tuple of NodeSelectorRequirement
        What else nodes of this offering have.
    capacity_override : mapping of str to Quantity
        Capacity that differs from the type's.
    is_bound : bool
        Whether the price is not known, but is at most this.
    is_paid : bool
        Whether the instances were paid for before: the price only says which one comes.
    may_come : bool
        Whether it can be launched, now or later: not if its node class or its zone never has it.
    """

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    reservation_id: str = ""
    reservation_capacity: int = 0
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    capacity_override: Mapping[str, Quantity] = field(default_factory=dict)
    is_bound: bool = False
    is_paid: bool = False
    may_come: bool = True

    @property
    def is_launchable(self) -> bool:
        """Whether an instance could be launched now."""
        return self.available and (self.capacity_type != RESERVED or self.reservation_capacity > 0)

    @property
    def cost(self) -> HourlyCost:
        """What a node costs. A provider has offerings without a known price at 0, and they are not there."""
        if self.is_paid:
            return HourlyCost(0.0, 0.0)
        is_known = self.price < UNKNOWN and (self.price or self.available)
        return HourlyCost(0.0 if self.is_bound else self.price, self.price) if is_known else HourlyCost()


class ShownSizes(NamedTuple):
    """What nodes of an instance type have, and what was believed of them before the first one came.

    Attributes
    ----------
    capacity, allocatable : mapping of str to Quantity
        The least of all nodes, by resource.
    estimated : int
        Memory in bytes that a node was believed to have: `sold` without the share `overhead`; `sold` is
        0 where the rules of the provider are not public.
    """

    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    estimated: int = 0
    sold: int = 0
    overhead: float = 0.0


@dataclass(frozen=True, eq=False)
class InstanceType:
    """A kind of machine.

    Attributes
    ----------
    capacity : mapping of str to Quantity
        By resource.
    overhead : sequence of mapping
        What the kubelet, the system and the eviction threshold keep, each by resource.
    requirements : tuple of NodeSelectorRequirement
        The labels of its nodes; several values are a choice.
    volume_limits : mapping of str to int
        How many volumes of a CSI driver a node can attach.
    shown : ShownSizes or None
        Of nodes of the type that are there: new ones have as much, whatever is believed of the type.
    """

    name: str
    capacity: Mapping[str, Quantity]
    offerings: tuple[Offering, ...]
    requirements: tuple[NodeSelectorRequirement, ...] = ()
    overhead: Sequence[Mapping[str, Quantity]] = ()
    volume_limits: Mapping[str, int] = field(default_factory=dict)
    shown: ShownSizes | None = None

    @cached_property
    def stated(self) -> tuple[NodeSelectorRequirement, ...]:
        """The labels of its nodes, also those that only its name and its offerings say."""
        own = {
            INSTANCE_TYPE: [self.name],
            ZONE: dict.fromkeys(each.zone for each in self.offerings),
            CAPACITY_TYPE: dict.fromkeys(each.capacity_type for each in self.offerings),
        }
        for each in self.requirements:
            own.pop(each.key, None)
        return (*self.requirements, *requirements(own))

    @cached_property
    def label_keys(self) -> frozenset[str]:
        """The labels that the type and its offerings name."""
        every = {self.requirements, *(offering.requirements for offering in self.offerings)}
        return frozenset(requirement.key for requirements in every for requirement in requirements)

    @cached_property
    def size(self) -> tuple[int, int, int]:
        """Its devices, cpu and memory: by what a smaller one is told."""
        devices = {name for name in self.capacity if "/" in name and not name.startswith(INTERFACES)}
        cpu, memory = (self.capacity.get(name, _NOTHING) for name in ("cpu", "memory"))
        return sum(self.capacity[name].value() for name in devices), cpu.milli_value(), memory.value()

    @cached_property
    def room(self) -> dict[str, int]:
        """What pods can have of a node, in billionths."""
        return {name: amount.nanos() for name, amount in self.allocatable({}).items()}

    def allocatable(self, override: Mapping[str, Quantity]) -> dict[str, Quantity]:
        """What pods can have of a node, with a capacity that differs for some resources."""
        kept = total(self.overhead)
        left = {
            name: amount - kept[name] if name in kept else amount
            for name, amount in {**self.capacity, **override}.items()
        }
        for name, amount in {**self.capacity, **override}.items():
            if name.startswith("hugepages-"):
                memory = left.get("memory", _NOTHING) - amount
                left["memory"] = memory if memory.sign() >= 0 else _NOTHING
        return left


_NOTHING = Quantity("0")


# ---- offerings that a provider does not launch, as if it had lately run out of them ------------------------

_CAPACITY_TYPE_LABELS = (
    CAPACITY_TYPE,
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
)
_SPOT_LABELS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
"""Labels of providers by which nodes of groups are known to be spot."""

Shortage = frozenset[str]
"""Capacity type, instance type and zone of the offerings, or labels of their nodes as ``key=value``; what is
left out may be any."""


def shortage_of(text: str) -> Shortage:
    """Read a shortage such as ``spot``, ``m5.large/us-west-2a`` or ``spot/m5.large``."""
    return frozenset(text.split("/"))


def stated_labels(kind: InstanceType, offering: Offering) -> dict[str, str]:
    """Return the labels that a type and an offering of it give all nodes, without those of the offering."""
    return {
        each.key: each.values[0]
        for each in (*kind.requirements, *offering.requirements)
        if each.operator == "In" and len(each.values) == 1
    }


def offered_as(kind: InstanceType, offering: Offering) -> frozenset[str]:
    """Return by what an offering of a type may be named, also by the labels that all its nodes have."""
    own = {INSTANCE_TYPE: kind.name, ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    return frozenset([*own.values(), *labelled(stated_labels(kind, offering) | own)])


def node_offered_as(node: Node) -> frozenset[str]:
    """Return by what the offering of a node of a group may be named. Without a label of its provider for the
    capacity type it is on demand."""
    labels = node.metadata.labels
    kinds = {labels.get(key, "").lower().replace("_", "-") for key in _CAPACITY_TYPE_LABELS}
    is_spot = "spot" in kinds or any(labels.get(key) == "true" for key in _SPOT_LABELS)
    named = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), "spot" if is_spot else "on-demand"
    return frozenset([*named, *labelled(labels)])


def labelled(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield labels as a shortage names them."""
    return (f"{key}={value}" for key, value in labels.items())


def is_short(offered: frozenset[str], shortages: Iterable[Shortage]) -> bool:
    """Whether an offering is among those that are gone."""
    return any(shortage <= offered for shortage in shortages)


def with_shortages(kind: InstanceType, shortages: Collection[Shortage]) -> InstanceType:
    """Return a type whose offerings are not available where they are gone; the type itself if none is.

    They stay in the list: nodes of them do not drift, keep their price, and their zones still count."""
    if not shortages:
        return kind
    short = [is_short(offered_as(kind, offering), shortages) for offering in kind.offerings]
    if not any(short):
        return kind
    offerings = zip(kind.offerings, short, strict=True)
    return replace(
        kind,
        offerings=tuple([replace(each, available=False) if is_gone else each for each, is_gone in offerings]),
    )


def refuse_unoffered(
    shortages: Collection[Shortage], types: Iterable[InstanceType], groups: Iterable[Node] = ()
) -> None:
    """Refuse a shortage of what no type is offered as, and no node of a group is.

    Raises
    ------
    InputError
        Such as for a misspelt zone.
    """
    if not shortages:
        return
    every = {offered_as(kind, offering) for kind in types for offering in kind.offerings}
    every |= set(map(node_offered_as, groups))
    for shortage in shortages:
        if not any(is_short(offered, (shortage,)) for offered in every):
            hint = "write a capacity type, an instance type or a zone of the types, or several with / between"
            raise InputError(
                f"no instance type is offered as {'/'.join(sorted(shortage))}; {hint}", source="--unavailable"
            )


# ---- the instance types that the nodes of pools show, for clusters whose provider's list is not at hand ----

_OF_ONE_NODE = (
    *(HOSTNAME, "karpenter.sh/registered", "karpenter.sh/initialized"),
    *(INSTANCE_TYPE, ZONE, CAPACITY_TYPE, POOL, REGION),
)
_SYSTEM = ("kubernetes.io/arch", "kubernetes.io/os", GKE_ACCELERATOR)


def seen_types(nodes: Iterable[Node], domains: frozenset[str] = DOMAINS) -> dict[str, list[InstanceType]]:
    """Return the types of each pool's nodes, without prices, in the zones, regions and of the capacity types
    that they have there. They have the labels below some domains that all nodes of the type share."""
    nodes_of: dict[str, dict[str, list[Node]]] = {}
    for node in nodes:
        labels = node.metadata.labels
        if labels.get(POOL) and labels.get(INSTANCE_TYPE):
            nodes_of.setdefault(labels[POOL], {}).setdefault(labels[INSTANCE_TYPE], []).append(node)
    return {
        pool: [_type(name, of_type, domains) for name, of_type in sorted(types.items())]
        for pool, types in sorted(nodes_of.items())
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
        (its.get(ZONE, ""), its.get(CAPACITY_TYPE) or "on-demand", its.get(REGION, ""))
        for its in (node.metadata.labels for node in nodes)
    }
    capacity, left = map(dict, _shown_amounts(nodes))
    overhead = {key: amount - left[key] for key, amount in capacity.items() if key in left}
    return InstanceType(
        name,
        capacity,
        tuple(
            [
                Offering(zone, kind, UNKNOWN, requirements=requirements({REGION: [region]} if region else {}))
                for zone, kind, region in sorted(offerings)
            ]
        ),
        requirements({key: (value,) for key, value in common.items()}),
        (overhead,),
    )


Amounts = tuple[tuple[str, Quantity], ...]


ShownTypes = tuple[tuple[str, Amounts, Amounts], ...]


def shown_types(nodes: Iterable[Node]) -> ShownTypes:
    """Return name, capacity and allocatable of the types of which there are nodes; those made here do not
    count."""
    by_type = dict[str, list[Node]]()
    for node in nodes:
        name = node.metadata.labels.get(INSTANCE_TYPE, "")
        if name and node.status.capacity and not node.spec.provider_id.startswith(MADE_HERE):
            by_type.setdefault(name, []).append(node)
    return tuple([(name, *_shown_amounts(of_type)) for name, of_type in sorted(by_type.items())])


def _shown_amounts(nodes: Iterable[Node]) -> tuple[Amounts, Amounts]:
    """Return the least capacity and allocatable of nodes, by resource."""
    both = [(node.status.capacity or node.status.allocatable, node.status.allocatable) for node in nodes]
    capacity = _least([_amounts(given) for given, _ in both])
    left = _least([_amounts(left or given) for given, left in both])
    return tuple(capacity.items()), tuple(left.items())


def _amounts(resources: Mapping[str, str | int | float]) -> dict[str, Quantity]:
    return {name: parse(raw) for name, raw in resources.items()}


def _least(amounts: list[dict[str, Quantity]]) -> dict[str, Quantity]:
    return {
        name: min(amount[name] for amount in amounts)
        for name in amounts[0]
        if all(name in amount for amount in amounts)
    }


# ---- listed types ------------------------------------------------------------------------------------------
# What the types have in common that the command of a provider lists: ``az vm list-skus``, ``gcloud compute
# machine-types list``.

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ListedTypes:
    """Types of a region for the pools of one provider.

    Attributes
    ----------
    group : str
        The API group of the provider's node classes.
    of_spec : callable
        Makes the types of the spec of a node class, as JSON; of a usual one for None.
    source : str
        Of what the types are, and what is not known of them.
    assumed : str
        Of a node class that is not in the input.
    """

    group: str
    of_spec: Callable[[bytes | None], Sequence[InstanceType]]
    source: str
    assumed: str

    @property
    def types(self) -> Sequence[InstanceType]:
        """Those of a usual node class."""
        return self.of_spec(None)

    def at(self, prices: Callable[[Iterable[InstanceType]], list[InstanceType]]) -> ListedTypes:
        """Return the types with other prices."""
        return replace(self, of_spec=cache(lambda spec: prices(self.of_spec(spec))))


def read_items(items: Sequence[object], kind: type[T], command: str) -> list[T]:
    """Decode the items of a list; an error names the command and the item.

    Raises
    ------
    InputError
        An item lacks a field, or a field has another type than the command prints.
    """
    decoded = []
    for at, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        about = f"{shorten(name)} " if isinstance(name, str) else ""
        with located(obj=about.strip(), path=f"[{at}]"):
            if not isinstance(item, dict):
                raise InputError(f"must be an object, as {command} prints it")
            decoded.append(decode(item, kind))
    return decoded


def only_region(regions: Iterable[str], hint: str) -> str:
    """Return the region that all items are of.

    Raises
    ------
    InputError
        They are of several: prices and zones differ.
    """
    names = sorted({*regions})
    if len(names) > 1:
        raise InputError(f"has types of {len(names)} regions, such as {names[0]} and {names[1]}: {hint}")
    return names[0]
