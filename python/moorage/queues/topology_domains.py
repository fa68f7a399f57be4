"""The domains of a topology while pods are placed in them (Kueue v0.17,
pkg/cache/scheduler/tas_flavor_snapshot.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from moorage.kube.model.node import Node

from .whole_amounts import Amounts, quotient


class Domain:
    """A domain, with the numbers of the placement that is being computed.

    Attributes
    ----------
    pods, slices : int
        How many fit, then how many it gets.
    pods_beside, slices_beside : int
        How many fit beside a leader.
    leaders : int
        Whether a leader fits (0 or 1), then whether it gets it.
    """

    __slots__ = ("children", "leaders", "parent", "pods", "pods_beside", "slices", "slices_beside", "values")

    def __init__(self, values: tuple[str, ...]) -> None:
        self.values = values
        self.parent: Domain | None = None
        self.children: list[Domain] = []
        self.clear()

    def clear(self) -> None:
        """Forget the numbers."""
        self.pods = self.pods_beside = self.slices = self.slices_beside = self.leaders = 0


class Leaf(Domain):
    """A domain of the lowest level: what it has and what of it is used."""

    __slots__ = ("free", "node", "usage")

    def __init__(self, values: tuple[str, ...], node: Node | None) -> None:
        super().__init__(values)
        self.node = node
        self.free: Amounts = {}
        self.usage: Amounts = {}


@dataclass
class ExcludedNodes:
    """Why how many nodes have no room."""

    total: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        if not self.reasons:
            return ""
        counted = ", ".join(sorted([f"{reason}: {count}" for reason, count in self.reasons.items()]))
        return f". Total nodes: {self.total}; excluded: {counted}"


class NoPlacementError(Exception):
    """No domains have room; its text says why."""


@dataclass
class PlacementSearch:
    """One placement: what is asked for, and how domains are compared."""

    count: int
    leaders: int
    size: int
    level: int
    slice_level: int
    is_required: bool
    is_unconstrained: bool
    fewest_first: bool
    excluded: ExcludedNodes = field(default_factory=ExcludedNodes)

    def sorted(self, domains: Iterable[Domain]) -> list[Domain]:
        """Return domains with the most slices first, or the fewest; of equal ones those with the fewest
        pods."""
        sign = 1 if self.fewest_first else -1
        return sorted(domains, key=lambda each: (sign * each.slices, each.pods, each.values))

    def sorted_beside(self, domains: Iterable[Domain]) -> list[Domain]:
        """Return domains in this order, by what fits beside a leader, those with room for one first."""
        sign = 1 if self.fewest_first else -1
        return sorted(
            domains,
            key=lambda each: (-each.leaders, sign * each.slices_beside, each.pods_beside, each.values),
        )


def best_fit(domains: Sequence[Domain], needed: int, value: Callable[[Domain], int]) -> Domain:
    """Return the first domain with the least that is enough; the first of all if none has less than that."""
    best = domains[0]
    for each in domains:
        if needed <= value(each) < value(best):
            best = each
    return best


def sum_up(domain: Domain, size: int, slice_level: int, level: int) -> None:
    """Count what fits into a domain from what fits into those below it."""
    if domain.children:
        for child in domain.children:
            sum_up(child, size, slice_level, level + 1)
        pods = domain.pods = sum([child.pods for child in domain.children])
        slices = domain.slices = sum([child.slices for child in domain.children])
        domain.pods_beside = pods - min(child.pods - child.pods_beside for child in domain.children)
        domain.leaders = max(child.leaders for child in domain.children)
        domain.slices_beside = slices - min(child.slices - child.slices_beside for child in domain.children)
    if level == slice_level:
        domain.slices, domain.slices_beside = quotient(domain.pods, size), quotient(domain.pods_beside, size)


FITTING: dict[tuple[bool, bool], Callable[[Domain], int]] = {
    (False, False): lambda domain: domain.pods,
    (True, False): lambda domain: domain.pods_beside,
    (False, True): lambda domain: domain.slices,
    (True, True): lambda domain: domain.slices_beside,
}
"""What fits: beside a leader or not, in slices or pods."""


def shared_out(
    search: PlacementSearch, domains: list[Domain], count: int, leaders: int, size: int, in_slices: bool
) -> list[Domain]:
    """Give pods to domains in their order, the rest to the one that it fits best; return those used."""
    rest = count // size if in_slices else count
    used: list[Domain] = []
    for at, each in enumerate(domains):
        value = FITTING[leaders > 0, in_slices]
        domain = each
        if not search.fewest_first and value(each) >= rest and each.leaders >= leaders:
            domain = best_fit(domains[at:], rest, value)
        used.append(domain)
        fits = value(domain)
        if fits >= rest and (not leaders or domain.leaders >= leaders):
            domain.leaders, domain.pods = leaders, rest * size
            if in_slices:
                domain.slices = rest
            return used
        if not leaders:
            domain.leaders = 0
            if in_slices:
                domain.pods = fits * size
            rest -= fits
        elif in_slices:
            given = min(fits, rest)
            domain.slices_beside, domain.pods = given, given * size
            domain.leaders = min(domain.leaders, leaders)
            leaders, rest = leaders - domain.leaders, rest - given
        else:
            leaders, rest = leaders - domain.leaders, rest - fits
            domain.pods_beside, domain.leaders = min(fits, rest), min(domain.leaders, leaders)
    return []
