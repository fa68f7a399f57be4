"""What a pass comes to: claims as they would be created, pods for nodes that are there, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np

from moorage.autoscaling.instance_types.instance_type import InstanceType, Offering, total
from moorage.tables import Table, Tabular

from .claims.claim import Claim
from .claims.claim_template import SIMULATED
from .claims.type_columns import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVED,
    KnownOffering,
    KnownType,
    TypeColumns,
    lacking_text,
    lacking_values,
)
from .claims.type_filter import smallest
from .go_sort import go_sorted
from .karpenter_options import VERSION, KarpenterOptions
from .requirements.requirement_set import HOSTNAME, RequirementSet
from .texts import with_values


class TypePrice(NamedTuple):
    """An instance type, and the least price at which it could be launched; None if none is known."""

    name: str
    price: float | None


class Launch(NamedTuple):
    """The cheapest offering of a claim; its price is None if it is not known."""

    instance_type: str
    zone: str
    capacity_type: str
    reservation_id: str
    price: float | None


@dataclass(frozen=True)
class NewClaim:
    """A node that would be made.

    Attributes
    ----------
    pool : str
    pods : tuple of str
        Keys, in the order in which they were placed.
    requests : dict of str to str
        Requests of the pods and of the daemons, by resource.
    requirements : dict
        By label, values by operator, and ``minValues``.
    labels : dict of str to str
    types : tuple of TypePrice
        The instance types that would do, the cheapest first.
    cheapest : Launch or None
        Its price is the least that the node costs.
    min_values_relaxed : bool
        Whether the last claim of the pool has fewer values than minValues asks for.
    launched : (InstanceType, Offering) or None
        What `cheapest` names.
    """

    pool: str
    pods: tuple[str, ...]
    requests: dict[str, str]
    requirements: dict[str, dict[str, Any]]
    labels: dict[str, str]
    types: tuple[TypePrice, ...]
    cheapest: Launch | None
    min_values_relaxed: bool = False
    launched: tuple[InstanceType, Offering] | None = field(default=None, compare=False, repr=False)

    @property
    def price(self) -> float | None:
        """Per hour, of the cheapest offering."""
        return self.cheapest.price if self.cheapest is not None else None


class PodError(NamedTuple):
    """Why a pod gets no node; with `waits` it only waits for a reservation."""

    text: str
    waits: bool = False


@dataclass(frozen=True, repr=False)
class Provisioning(Tabular):
    """What Karpenter would do for the pods that wait.

    Attributes
    ----------
    claims : tuple of NewClaim
        In order of creation.
    order : tuple of int
        Places in `claims`, in the order in which Karpenter returns them.
    existing : dict of str to tuple of str
        Pods that go to nodes that are there, by node.
    errors : dict of str to PodError
        By pod.
    ignored : dict of str to str
        Pods that Karpenter does not take up, and why.
    relaxed : dict of str to tuple of str
        By pod, the preferences that it gave up, over all attempts.
    pools : dict of str to str
        Pools without an instance type that meets their requirements, with Karpenter's event.
    seed : int
        It chose among domains that nothing else orders.
    karpenter_version : str
    """

    claims: tuple[NewClaim, ...] = ()
    order: tuple[int, ...] = ()
    existing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: dict[str, PodError] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    relaxed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    karpenter_version: str = VERSION

    @property
    def price(self) -> float:
        """Per hour, of the cheapest offering of each claim that has one."""
        return sum(claim.price or 0.0 for claim in self.claims)

    def headline(self) -> str:
        """Return how many nodes would come, for how many pods, in one line."""
        placed = sum(len(claim.pods) for claim in self.claims)
        there = sum(map(len, self.existing.values()))
        return (
            f"Karpenter {self.karpenter_version}: {len(self.claims)} new nodes for {placed} pods, "
            f"{self.price:.4g} per hour at least; {there} pods fit existing nodes, "
            f"{len(self.errors) + len(self.ignored)} get no node"
        )

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each claim: pool, number of pods, cheapest type, zone, capacity type, price."""
        claims = self.claims[:limit]
        cheapest = [claim.cheapest for claim in claims]
        return Table(
            {
                "pool": [claim.pool for claim in claims],
                "pods": np.array([len(claim.pods) for claim in claims], dtype=np.int64),
                "types": np.array([len(claim.types) for claim in claims], dtype=np.int64),
                "cheapest": [one.instance_type if one is not None else None for one in cheapest],
                "zone": [one.zone if one is not None else None for one in cheapest],
                "capacity_type": [one.capacity_type if one is not None else None for one in cheapest],
                "price": np.array([nan if claim.price is None else claim.price for claim in claims]),
            }
        )


class _Prices:
    """Prices of the types of templates, by the requirements of a claim."""

    def __init__(self) -> None:
        self._known: dict[tuple[TypeColumns, RequirementSet], list[float]] = {}

    def of(self, columns: TypeColumns, requirements: RequirementSet) -> list[float]:
        """By type the price of the cheapest offering that could be launched; infinite without one."""
        found = self._known.get((columns, requirements))
        if found is None:
            found = self._known[columns, requirements] = [
                min((known.offering.price for known in launchable(one, requirements)), default=inf)
                for one in columns.types
            ]
        return found


def launchable(of: KnownType, requirements: RequirementSet) -> Iterator[KnownOffering]:
    """The offerings of a type that could be launched for a claim."""
    for known in of.offerings:
        if known.offering.is_launchable and not requirements.refusal(known.requirements, undefined=True):
            yield known


def new_claims(
    claims: Sequence[Claim], options: KarpenterOptions
) -> tuple[dict[str, NewClaim], dict[str, PodError]]:
    """The claims as they would be created, by name; errors of pods whose claims lack values.

    Rules: Karpenter v1.15.0, FinalizeScheduling, Truncate and ToNodeClaim.
    """
    prices = _Prices()
    made: dict[str, NewClaim] = {}
    errors: dict[str, PodError] = {}
    for claim in claims:
        requirements, columns = _final(claim, options), claim.template.columns
        by_place = prices.of(columns, requirements)
        places = [at for at in range(len(columns.types)) if claim.types >> at & 1]
        places = go_sorted(places, by_place.__getitem__)[: options.most_types]
        lacking = lacking_values(columns, sum(1 << at for at in places), requirements)
        if lacking and not options.best_effort:
            text = "pod didn\u2019t schedule because NodePool couldn\u2019t meet minValues requirements"
            why = with_values(
                f"{text}, validating minValues, {lacking_text(lacking)}", NodePool=claim.template.name
            )
            errors |= {candidate.pod.key: PodError(why) for candidate in claim.pods}
            continue
        types = [columns.types[at] for at in places]
        made[claim.name] = _made(claim, types, requirements)
    return made, errors


def _final(claim: Claim, options: KarpenterOptions) -> RequirementSet:
    """The requirements of a claim, which is fixed to its reservations if it has some."""
    requirements, vocabulary = claim.requirements.without(HOSTNAME), claim.requirements.vocabulary
    if not claim.reserved:
        return requirements
    requirements = requirements.having(vocabulary.key(CAPACITY_TYPE).one_of(RESERVED))
    ids = [known.offering.reservation_id for known in claim.reserved]
    return requirements.meet(vocabulary.set_of([vocabulary.key(options.reservation_label).one_of(*ids)]))


def _made(claim: Claim, types: Sequence[KnownType], requirements: RequirementSet) -> NewClaim:
    vocabulary, template = requirements.vocabulary, claim.template
    named = vocabulary.requirement(INSTANCE_TYPE, "In", [one.name for one in types])
    requirements = requirements.meet(vocabulary.set_of([named]))
    offerings = [(one, list(launchable(one, requirements))) for one in types]
    kinds = {known.offering.capacity_type for _, of_type in offerings for known in of_type}
    if kinds:
        requirements = requirements.meet(vocabulary.set_of([vocabulary.key(CAPACITY_TYPE).one_of(*kinds)]))
    prices = [min((known.offering.price for known in of_type), default=inf) for _, of_type in offerings]
    every = [(one.type, known.offering) for one, of_type in offerings for known in of_type]
    launched = min(every, key=lambda pair: pair[1].price, default=None)
    cheapest: Launch | None = None
    if launched is not None:
        best = launched[1]
        price = _known(best.price)
        cheapest = Launch(launched[0].name, best.zone, best.capacity_type, best.reservation_id, price)
    return NewClaim(
        template.name,
        tuple([candidate.pod.key for candidate in claim.pods]),
        _requests(claim),
        _written(requirements),
        template.labels | _custom_labels(requirements),
        tuple([TypePrice(one.name, _known(price)) for one, price in zip(types, prices, strict=True)]),
        cheapest,
        template.min_values_relaxed,
        launched,
    )


def _known(price: float) -> float | None:
    return price if price < inf else None


def _requests(claim: Claim) -> dict[str, str]:
    """Requests of pods and daemons; of several groups of daemons the smallest amounts."""
    there = [group.requests for group in claim.template.groups if group.types & claim.types]
    least: Mapping[str, Any] = {}
    for requests in there:
        least = smallest(least, requests) if least else requests
    amounts = total((*(candidate.shape.requests for candidate in claim.pods), least))
    return {name: str(amount) for name, amount in amounts.items()}


def _written(requirements: RequirementSet) -> dict[str, dict[str, Any]]:
    """Requirements as a NodeClaim has them."""
    found: dict[str, dict[str, Any]] = {}
    for name, one in requirements.by_key.items():
        if name in SIMULATED:
            continue
        found[name] = dict(one.as_written())
        if one.min_values is not None:
            found[name]["minValues"] = one.min_values
    return found


def _custom_labels(requirements: RequirementSet) -> dict[str, str]:
    """A value for each label that the provider does not set."""
    skipped = {HOSTNAME, *SIMULATED, *requirements.vocabulary.well_known}
    return {
        name: value
        for name, one in requirements.by_key.items()
        if name not in skipped and (value := one.any_value())
    }
