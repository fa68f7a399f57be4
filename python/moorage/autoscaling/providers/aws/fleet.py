"""What EC2 is asked for once a claim is made: types and zones, of which it starts one instance.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instance (instance.go, filter/filter.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import or_
from typing import NamedTuple

from moorage._core.base.quantity import Quantity
from moorage.autoscaling.instance_types.instance_type import InstanceType, Offering
from moorage.autoscaling.instance_types.labels import CAPACITY_TYPE, RESERVED
from moorage.autoscaling.karpenter.claims.type_columns import KnownOffering, KnownType
from moorage.autoscaling.karpenter.new_nodes_result import NewClaim
from moorage.autoscaling.karpenter.requirements.requirement_set import RequirementSet, Vocabulary

from .node_capacity import EXOTIC
from .type_labels import INTERRUPTIBLE, RESERVATION_TYPE, TENANCIES, TENANCY

MOST_TYPES = 60
"""So many types EC2 is asked for at most."""
_BLOCK = "capacity-block"
_KINDS = (("default", "false"), (_BLOCK, "false"), ("default", "true"))
"""Kinds of reservations, with whether they may be interrupted, in the order of preference at equal prices."""


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A type that EC2 could be asked for, with those of its offerings that would do."""

    known: KnownType
    offers: tuple[KnownOffering, ...]

    def with_offers(self, keep: Callable[[KnownOffering], bool]) -> _Candidate:
        return replace(self, offers=tuple(filter(keep, self.offers)))

    @property
    def price(self) -> float:
        return min((one.offering.price for one in self.offers), default=inf)


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

    @property
    def cheapest(self) -> tuple[InstanceType, Offering]:
        """The cheapest of the first type: what is started, or costs no more."""
        first = self.overrides[0][0]
        return min((one for one in self.overrides if one[0] is first), key=lambda one: one[1].price)


def fleet(claim: NewClaim, types: Sequence[KnownType], vocabulary: Vocabulary) -> Fleet | None:
    """Return what EC2 is asked for to make a claim's node; None if no type is left.

    Parameters
    ----------
    types : sequence of KnownType
        Those of the claim's pool, in the order of the provider.
    """
    wanted = _requirements(claim, vocabulary)
    found = list(_compatible(types, wanted, claim))
    if wanted.get(CAPACITY_TYPE).allows(RESERVED):
        found = _of_one_block(_of_one_kind(found))
        found = [one.with_offers(_largest_by_zone(one)) for one in found if _has_reserved(one)] or found
    if not wanted.has_min_values:
        found = [one for one in found if not _is_exotic(one)] or found
        found = _without_dear_spot(found, wanted)
    found = _by_price(found)[:MOST_TYPES]
    if not found or _lacks_values(found, wanted):
        return None
    sold = {each.offering.capacity_type for one in found for each in one.offers}
    capacity_type = next((kind for kind in (RESERVED, "spot") if kind in sold), "on-demand")
    tenancy = next((kind for kind in TENANCIES if wanted.get(TENANCY).allows(kind)), TENANCIES[0])
    by_place: dict[tuple[str, str], tuple[InstanceType, Offering]] = {}
    for one in _by_price([one.with_offers(_sold_as(capacity_type)) for one in found]):
        for each in one.offers:
            by_place.setdefault((one.known.name, each.offering.zone), (one.known.type, each.offering))
    return Fleet(capacity_type, tenancy, capacity_type != "spot", tuple(by_place.values()))


def _by_price(found: Sequence[_Candidate]) -> list[_Candidate]:
    """Types by their cheapest offerings; the provider lists those of equal prices in no order."""
    return sorted(found, key=lambda one: (one.price, one.known.name))


def _sold_as(capacity_type: str) -> Callable[[KnownOffering], bool]:
    return lambda one: one.offering.capacity_type == capacity_type


def _requirements(claim: NewClaim, vocabulary: Vocabulary) -> RequirementSet:
    return vocabulary.set_of(
        [
            vocabulary.requirement(label, operator, values, rules.get("minValues"))
            for label, rules in claim.requirements.items()
            for operator, values in rules.items()
            if operator != "minValues"
        ]
    )


def _compatible(types: Sequence[KnownType], wanted: RequirementSet, claim: NewClaim) -> Iterator[_Candidate]:
    """Types on which the claim's pods fit, with the offerings that could be launched."""
    requests = {name: Quantity(amount).nanos() for name, amount in claim.requests.items()}
    names = {one.name for one in claim.types}
    for known in types:
        have = known.groups[0][0]
        fits = min(have.values()) >= 0 and all(have.get(name, 0) >= of for name, of in requests.items())
        if known.name not in names or not fits or wanted.refusal(known.requirements, undefined=True):
            continue
        offers = [
            one
            for one in known.offerings
            if one.offering.is_launchable and not wanted.refusal(one.requirements, undefined=True)
        ]
        if offers:
            yield _Candidate(known, tuple(offers))


# ---- reservations ------------------------------------------------------------------------------------------


def _kind(one: KnownOffering) -> tuple[str, str]:
    labels = one.requirements
    return labels.get(RESERVATION_TYPE).any_value(), labels.get(INTERRUPTIBLE).any_value()


_is_reserved = _sold_as(RESERVED)


def _has_reserved(one: _Candidate) -> bool:
    return any(map(_is_reserved, one.offers))


def _of_one_kind(found: list[_Candidate]) -> list[_Candidate]:
    """Types of the kind of reservations with the cheapest offering, as EC2 takes one kind at a time."""
    cheapest: dict[tuple[str, str], float] = {}
    for candidate in found:
        for one in filter(_is_reserved, candidate.offers):
            cheapest[_kind(one)] = min(one.offering.price, cheapest.get(_kind(one), inf))
    if not cheapest:
        return found
    chosen = min(cheapest, key=lambda kind: (cheapest[kind], _KINDS.index(kind)))
    left = [one.with_offers(lambda each: _is_reserved(each) and _kind(each) == chosen) for one in found]
    return [one for one in left if one.offers]


def _of_one_block(found: list[_Candidate]) -> list[_Candidate]:
    """The cheapest capacity block alone, as EC2 takes no two."""
    blocks = [
        (one.offering.price, at, one)
        for at, candidate in enumerate(found)
        for one in candidate.offers
        if _is_reserved(one) and _kind(one)[0] == _BLOCK
    ]
    if not blocks:
        return found
    _, at, block = min(blocks, key=lambda one: one[:2])
    return [replace(found[at], offers=(block,))]


def _largest_by_zone(candidate: _Candidate) -> Callable[[KnownOffering], bool]:
    """Whether an offering is that of its zone with the most instances."""
    largest: dict[str, KnownOffering] = {}
    for one in filter(_is_reserved, candidate.offers):
        before = largest.get(one.offering.zone)
        if before is None or one.offering.reservation_capacity > before.offering.reservation_capacity:
            largest[one.offering.zone] = one
    return lambda one: largest.get(one.offering.zone) is one


# ---- other filters -----------------------------------------------------------------------------------------


def _is_exotic(one: _Candidate) -> bool:
    """Whether a type is bare metal, or has GPUs or accelerators."""
    of_type, size = one.known.type, one.known.requirements.get("karpenter.k8s.aws/instance-size")
    is_metal = not size.complement and any("metal" in name for name in size.key.names(size.mask))
    return is_metal or any(name in of_type.capacity and of_type.capacity[name].sign() for name in EXOTIC)


def _without_dear_spot(found: list[_Candidate], wanted: RequirementSet) -> list[_Candidate]:
    """Types without spot offerings dearer than the cheapest on demand, where both are allowed and there."""
    allowed = wanted.get(CAPACITY_TYPE)
    prices: dict[str, list[float]] = {}
    for candidate in found:
        for one in candidate.offers:
            prices.setdefault(one.offering.capacity_type, []).append(one.offering.price)
    both = ("on-demand", "spot")
    if not all(kind in prices and allowed.allows(kind) for kind in both):
        return found
    bound = min(prices["on-demand"])
    left = [
        one.with_offers(lambda each: each.offering.capacity_type != "spot" or each.offering.price <= bound)
        for one in found
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
