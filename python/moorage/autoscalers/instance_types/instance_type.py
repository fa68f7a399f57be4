"""What a provider can launch: instance types, and the offerings of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from moorage._core.base.quantity import Quantity
from moorage.kube import NodeSelectorRequirement

from .labels import RESERVED


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

    @property
    def is_launchable(self) -> bool:
        """Whether an instance could be launched now."""
        return self.available and (self.capacity_type != RESERVED or self.reservation_capacity > 0)


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
    def label_keys(self) -> frozenset[str]:
        """The labels that the type and its offerings name."""
        every = {self.requirements, *(one.requirements for one in self.offerings)}
        return frozenset(requirement.key for requirements in every for requirement in requirements)

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


def total(amounts: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """The sum by resource, each in the format of the first amount."""
    found: dict[str, Quantity] = {}
    for one in amounts:
        for name, amount in one.items():
            found[name] = found[name] + amount if name in found else amount
    return found
