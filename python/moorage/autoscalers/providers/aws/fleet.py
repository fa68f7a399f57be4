"""What EC2 is asked for once a claim is made: types and zones, of which it starts one instance.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instance (instance.go, filter/filter.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import or_
from typing import NamedTuple

from moorage.autoscalers.karpenter.label_requirements import RequirementSet
from moorage.autoscalers.karpenter.new_nodes_result import FinishedClaim, cheapest
from moorage.autoscalers.karpenter.type_columns import KnownType

from ..instance_type import CAPACITY_TYPE, RESERVED, InstanceType, Offering
from .ec2_instance_types import DOMAIN, INTERRUPTIBLE, RESERVATION_TYPE, TENANCIES, TENANCY
from .node_capacity import EXOTIC

MOST_TYPES = 60
"""So many types EC2 is asked for at most."""
_BLOCK = "capacity-block"
_KINDS = (("default", "false"), (_BLOCK, "false"), ("default", "true"))
"""Kinds of reservations, with whether they may be interrupted, in the order of preference at equal prices."""


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A type that EC2 could be asked for, with those of its offerings that would do."""

    known: KnownType
    offers: tuple[Offering, ...]

    def with_offers(self, keep: Callable[[Offering], bool]) -> _Candidate:
        return replace(self, offers=tuple(filter(keep, self.offers)))

    @property
    def price(self) -> float:
        return min((one.price for one in self.offers), default=inf)


class Fleet(NamedTuple):
    """A request to EC2.

    Attributes
    ----------
    takes_cheapest : bool
        Whether EC2 starts the cheapest that it has. Of spot it may start any, so the first is a lower bound.
    overrides : tuple of (InstanceType, Offering)
        What it may start, by type, the cheapest first, and in order of their zones.
    """

    capacity_type: str
    tenancy: str
    takes_cheapest: bool
    overrides: tuple[tuple[InstanceType, Offering], ...]


def launched(finished: FinishedClaim) -> tuple[InstanceType, Offering] | None:
    """Return what is launched for a claim of any provider: the cheapest where EC2 is not asked."""
    if finished.claim.template.pool.spec.template.spec.node_class_ref.group != DOMAIN:
        return cheapest(finished)
    known, types = finished.offers.launched, tuple(finished.places)
    if types not in known:
        asked = fleet(finished)
        overrides = asked.overrides if asked is not None else ()
        of_first = [one for one in overrides if one[0] is overrides[0][0]]
        known[types] = min(of_first, key=lambda one: one[1].price, default=None)
    return known[types]


def fleet(finished: FinishedClaim) -> Fleet | None:
    """Return what EC2 is asked for to make the node of a claim; None if no type is left."""
    wanted, offers = finished.requirements, finished.offers
    types = finished.claim.template.columns.types
    found = [_Candidate(types[at], tuple(offers.launchable[at])) for at in finished.places]
    found = [one for one in found if one.offers]
    if wanted.get(CAPACITY_TYPE).allows(RESERVED):
        found = _of_one_block(_of_one_kind(found))
        found = [one.with_offers(_largest_by_zone(one)) for one in found if _has_reserved(one)] or found
    if not wanted.has_min_values:
        found = [one for one in found if not _is_exotic(one)] or found
        found = _without_dear_spot(found)
    found = _by_price(found)[:MOST_TYPES]
    if not found or _lacks_values(found, wanted):
        return None
    sold = {each.capacity_type for one in found for each in one.offers}
    capacity_type = next((kind for kind in (RESERVED, "spot") if kind in sold), "on-demand")
    tenancy = next((kind for kind in TENANCIES if wanted.get(TENANCY).allows(kind)), TENANCIES[0])
    by_place: dict[tuple[str, str], tuple[InstanceType, Offering]] = {}
    for one in _by_price([one.with_offers(_sold_as(capacity_type)) for one in found]):
        for each in one.offers:
            by_place.setdefault((one.known.name, each.zone), (one.known.type, each))
    return Fleet(capacity_type, tenancy, capacity_type != "spot", tuple(by_place.values()))


def _by_price(found: Sequence[_Candidate]) -> list[_Candidate]:
    """Types by their cheapest offerings; the provider lists those of equal prices in no order."""
    return sorted(found, key=lambda one: (one.price, one.known.name))


def _sold_as(capacity_type: str) -> Callable[[Offering], bool]:
    return lambda one: one.capacity_type == capacity_type


# ---- reservations ------------------------------------------------------------------------------------------


_is_reserved = _sold_as(RESERVED)


def _has_reserved(one: _Candidate) -> bool:
    return any(map(_is_reserved, one.offers))


def _kind(one: Offering) -> tuple[str, str]:
    labels = {each.key: each.values[0] for each in one.requirements if each.values}
    return labels.get(RESERVATION_TYPE, ""), labels.get(INTERRUPTIBLE, "")


def _of_one_kind(found: list[_Candidate]) -> list[_Candidate]:
    """Types of the kind of reservations with the cheapest offering, as EC2 takes one kind at a time."""
    prices: dict[tuple[str, str], float] = {}
    for candidate in found:
        for one in filter(_is_reserved, candidate.offers):
            prices[_kind(one)] = min(one.price, prices.get(_kind(one), inf))
    if not prices:
        return found
    chosen = min(prices, key=lambda kind: (prices[kind], _KINDS.index(kind)))
    left = [one.with_offers(lambda each: _is_reserved(each) and _kind(each) == chosen) for one in found]
    return [one for one in left if one.offers]


def _of_one_block(found: list[_Candidate]) -> list[_Candidate]:
    """The cheapest capacity block alone, as EC2 takes no two."""
    blocks = [
        (one.price, at, one)
        for at, candidate in enumerate(found)
        for one in candidate.offers
        if _is_reserved(one) and _kind(one)[0] == _BLOCK
    ]
    if not blocks:
        return found
    _, at, block = min(blocks, key=lambda one: one[:2])
    return [replace(found[at], offers=(block,))]


def _largest_by_zone(candidate: _Candidate) -> Callable[[Offering], bool]:
    """Whether an offering is that of its zone with the most instances."""
    largest: dict[str, Offering] = {}
    for one in filter(_is_reserved, candidate.offers):
        before = largest.get(one.zone)
        if before is None or one.reservation_capacity > before.reservation_capacity:
            largest[one.zone] = one
    return lambda one: largest.get(one.zone) is one


# ---- other filters -----------------------------------------------------------------------------------------


def _is_exotic(one: _Candidate) -> bool:
    """Whether a type is bare metal, or has GPUs or accelerators."""
    of_type = one.known.type
    is_metal = "metal" in of_type.name.partition(".")[2]
    return is_metal or any(name in of_type.capacity and of_type.capacity[name].sign() for name in EXOTIC)


def _without_dear_spot(found: list[_Candidate]) -> list[_Candidate]:
    """Types without spot offerings dearer than the cheapest on demand, where both are there."""
    on_demand = [each.price for one in found for each in one.offers if each.capacity_type == "on-demand"]
    if not on_demand:
        return found
    bound = min(on_demand)
    left = [
        one.with_offers(lambda each: each.capacity_type != "spot" or each.price <= bound) for one in found
    ]
    return [one for one in left if one.offers]


def _lacks_values(found: Sequence[_Candidate], wanted: RequirementSet) -> bool:
    """Whether the types have fewer values of a label than minValues asks for."""
    for name, requirement in wanted.by_key.items():
        if requirement.min_values is not None:
            values = reduce(or_, [one.known.requirements.get(name).mask for one in found], 0)
            if requirement.select(values).bit_count() < requirement.min_values:
                return True
    return False
