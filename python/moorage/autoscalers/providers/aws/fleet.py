"""What EC2 is asked for once a claim is made: types and zones, of which it starts one instance.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instance (instance.go, filter/filter.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import or_

from moorage._core.provision.label_requirements import RequirementSet
from moorage.autoscalers.karpenter.new_nodes_result import FinishedClaim, Launched, by_price
from moorage.autoscalers.karpenter.type_columns import KnownType
from moorage.lazy import NamedTuple

from ...hourly_cost import HourlyCost
from ..instance_type import CAPACITY_TYPE, RESERVED, InstanceType, Offering
from .ec2_instance_types import INTERRUPTIBLE, RESERVATION_TYPE, TENANCIES, TENANCY
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
        return min((offer.price for offer in self.offers), default=inf)


class Fleet(NamedTuple):
    """A request to EC2.

    Attributes
    ----------
    takes_cheapest : bool
        Whether EC2 starts the cheapest that it has. Of spot it may start any.
    overrides : tuple of (InstanceType, Offering)
        What it may start, by type, the cheapest first, and in order of their zones.
    choices : int
        How many types that are at most. Where no spot price is known, it is not known either which are
        dearer than the cheapest on demand, or than others.
    """

    capacity_type: str
    tenancy: str
    takes_cheapest: bool
    overrides: tuple[tuple[InstanceType, Offering], ...]
    choices: int


def launched(finished: FinishedClaim) -> Launched | None:
    """Return what EC2 launches: on demand the cheapest; of spot any, which it chooses by the capacity that is
    free.

    Where no spot price is known, other types may be the cheapest. As none costs more than on demand, the last
    of the cheapest does not cost more than the last of as many on demand; nor, where these are fewer because
    it has to be below a price, than that.
    """
    request = fleet(finished)
    if request is None or not request.overrides:
        return None
    every = sorted(request.overrides, key=lambda each: each[1].price)
    if request.takes_cheapest:
        return Launched.among(
            "EC2 chooses among", [each for each in every if each[1].price == every[0][1].price]
        )
    any_of = Launched.among("EC2 chooses by price and free capacity among up to", every, request.choices)
    is_short = len({each.name for each, _ in every}) < MOST_TYPES
    if any_of.cost.least == 0 and is_short and finished.below is not None:
        return any_of._replace(cost=HourlyCost(0.0, finished.below))
    return any_of


def fleet(finished: FinishedClaim) -> Fleet | None:
    """Return what EC2 is asked for to make the node of a claim; None if no type is left."""
    wanted, offers = finished.requirements, finished.offers
    types = finished.claim.template.columns.types
    candidates = [
        _Candidate(types[at], tuple(offer for offer in offers.launchable[at] if offer.may_come))
        for at in finished.places
    ]
    candidates = [each for each in candidates if each.offers]
    if wanted.get(CAPACITY_TYPE).allows(RESERVED):
        candidates = _of_one_block(_of_one_kind(candidates))
        candidates = [
            each.with_offers(_largest_by_zone(each))
            for each in candidates
            if any(map(_is_reserved, each.offers))
        ] or candidates
    if not wanted.has_min_values:
        candidates = [each for each in candidates if not _is_exotic(each)] or candidates
    guessed = sum(any(offer.is_bound for offer in each.offers) for each in candidates)
    if guessed and finished.below is not None:
        guessed = finished.claim.types.bit_count()
    if not wanted.has_min_values:
        candidates = _without_dear_spot(candidates)
    candidates = _by_price(candidates)[:MOST_TYPES]
    if not candidates or _lacks_values(candidates, wanted):
        return None
    sold = {each.capacity_type for candidate in candidates for each in candidate.offers}
    capacity_type = next((kind for kind in (RESERVED, "spot") if kind in sold), "on-demand")
    tenancy = next((kind for kind in TENANCIES if wanted.get(TENANCY).allows(kind)), TENANCIES[0])
    by_place: dict[tuple[str, str], tuple[InstanceType, Offering]] = {}
    for candidate in _by_price([each.with_offers(_sold_as(capacity_type)) for each in candidates]):
        for each in candidate.offers:
            by_place.setdefault((candidate.known.name, each.zone), (candidate.known.type, each))
    choices = max(min(guessed, MOST_TYPES), len({name for name, _ in by_place}))
    return Fleet(capacity_type, tenancy, capacity_type != "spot", tuple(by_place.values()), choices)


def _by_price(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Types by their cheapest offerings; the provider lists those of equal prices in no order."""
    return sorted(candidates, key=lambda each: (*by_price(each.known.type, each.price), each.known.name))


def _sold_as(capacity_type: str) -> Callable[[Offering], bool]:
    return lambda each: each.capacity_type == capacity_type


# ---- reservations ------------------------------------------------------------------------------------------


_is_reserved = _sold_as(RESERVED)


def _kind(offering: Offering) -> tuple[str, str]:
    labels = {each.key: each.values[0] for each in offering.requirements if each.values}
    return labels.get(RESERVATION_TYPE, ""), labels.get(INTERRUPTIBLE, "")


def _of_one_kind(candidates: list[_Candidate]) -> list[_Candidate]:
    """Types of the kind of reservations with the cheapest offering, as EC2 takes one kind at a time."""
    prices: dict[tuple[str, str], float] = {}
    for candidate in candidates:
        for offer in filter(_is_reserved, candidate.offers):
            prices[_kind(offer)] = min(offer.price, prices.get(_kind(offer), inf))
    if not prices:
        return candidates
    chosen = min(prices, key=lambda kind: (prices[kind], _KINDS.index(kind)))
    left = [
        each.with_offers(lambda each: _is_reserved(each) and _kind(each) == chosen) for each in candidates
    ]
    return [each for each in left if each.offers]


def _of_one_block(candidates: list[_Candidate]) -> list[_Candidate]:
    """The cheapest capacity block alone, as EC2 takes no two."""
    blocks = [
        (offer.price, at, offer)
        for at, candidate in enumerate(candidates)
        for offer in candidate.offers
        if _is_reserved(offer) and _kind(offer)[0] == _BLOCK
    ]
    if not blocks:
        return candidates
    _, at, block = min(blocks, key=lambda block: block[:2])
    return [replace(candidates[at], offers=(block,))]


def _largest_by_zone(candidate: _Candidate) -> Callable[[Offering], bool]:
    """Whether an offering is that of its zone with the most instances."""
    largest: dict[str, Offering] = {}
    for offer in filter(_is_reserved, candidate.offers):
        before = largest.get(offer.zone)
        if before is None or offer.reservation_capacity > before.reservation_capacity:
            largest[offer.zone] = offer
    return lambda each: largest.get(each.zone) is each


# ---- other filters -----------------------------------------------------------------------------------------


def _is_exotic(candidate: _Candidate) -> bool:
    """Whether a type is bare metal, or has GPUs or accelerators."""
    of_type = candidate.known.type
    is_metal = "metal" in of_type.name.partition(".")[2]
    return is_metal or any(name in of_type.capacity and of_type.capacity[name].sign() for name in EXOTIC)


def _without_dear_spot(candidates: list[_Candidate]) -> list[_Candidate]:
    """Types without spot offerings dearer than the cheapest on demand, where both are there."""
    on_demand = [
        each.price
        for candidate in candidates
        for each in candidate.offers
        if each.capacity_type == "on-demand"
    ]
    if not on_demand:
        return candidates
    bound = min(on_demand)
    left = [
        each.with_offers(lambda each: each.capacity_type != "spot" or each.price <= bound)
        for each in candidates
    ]
    return [each for each in left if each.offers]


def _lacks_values(candidates: Sequence[_Candidate], wanted: RequirementSet) -> bool:
    """Whether the types have fewer values of a label than minValues asks for."""
    for name, requirement in wanted.by_key.items():
        if requirement.min_values is not None:
            values = reduce(or_, [each.known.requirements.get(name).mask for each in candidates], 0)
            if requirement.select(values).bit_count() < requirement.min_values:
                return True
    return False
