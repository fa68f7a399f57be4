"""What a pass comes to: claims as they would be created, pods for nodes that are there, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain
from math import inf, nan
from operator import attrgetter, itemgetter, or_
from typing import Any

import numpy as np

from moorage._core.base.go_sort import sort_order
from moorage._core.provision.label_requirements import RequirementSet, bits
from moorage.kube.model.meta import total
from moorage.kube.model.node import HOSTNAME
from moorage.lazy import NamedTuple
from moorage.table import Table, Tabular

from ..hourly_cost import UNKNOWN, HourlyCost, price_text, rounded
from ..providers.instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVED,
    InstanceType,
    Offering,
)
from .claim import Claim, smallest
from .claim_template import SIMULATED
from .karpenter_options import VERSION, KarpenterOptions
from .pod_shape import with_values
from .type_columns import TypeColumns, lacking_text, lacking_values

_PRICE = attrgetter("price")


class TypePrice(NamedTuple):
    """An instance type, and the least price at which it could be launched; None if none is known."""

    name: str
    price: float | None


class Launch(NamedTuple):
    """An offering of a claim; its price is None if it is not known."""

    instance_type: str
    zone: str
    capacity_type: str
    reservation_id: str
    price: float | None


class LaunchChoice(NamedTuple):
    """Among what a provider chooses when it launches a node.

    Attributes
    ----------
    how : str
        Who chooses and how, up to the set.
    types : int
        How many types that are at most.
    zones : tuple of str
        In which zones the node may come.
    """

    how: str = ""
    types: int = 1
    zones: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether another node than the one that is simulated may come."""
        return self.types > 1 or len(self.zones) > 1


WITHOUT_PRICES = "no price is known, and any may come of"


class Launched(NamedTuple):
    """What a provider launches for a claim.

    Attributes
    ----------
    kind, offering : InstanceType, Offering
        What is simulated: where the provider chooses among several, the cheapest, first by zone.
    cost : HourlyCost
        Of all that may come.
    """

    kind: InstanceType
    offering: Offering
    cost: HourlyCost
    choice: LaunchChoice = LaunchChoice()

    @classmethod
    def among(cls, how: str, every: Iterable[tuple[InstanceType, Offering]], types: int = 0) -> Launched:
        """Return the launch of any of some offerings, of which the first is simulated."""
        offered = [*every]
        costs = [each.cost for _, each in offered]
        cost = HourlyCost(min(costs).least, max(each.most for each in costs))
        names, zones = {kind.name for kind, _ in offered}, {each.zone for _, each in offered}
        return cls(*offered[0], cost, LaunchChoice(how, max(types, len(names)), tuple(sorted(zones))))

    @property
    def instance_type(self) -> str:
        """The name of the type."""
        return self.kind.name

    @property
    def zone(self) -> str:
        """The zone that is simulated."""
        return self.offering.zone

    @property
    def named(self) -> str:
        """Instance type, capacity type and zone."""
        return " ".join(filter(None, (self.kind.name, self.offering.capacity_type, self.zone)))


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
    others : dict
        Requirements besides that on the instance type; see `requirements`.
    labels : dict of str to str
    types : tuple of TypePrice
        The instance types that would do, the cheapest first.
    cheapest : Launch or None
        Its price is the least that the node costs.
    min_values_relaxed : bool
        Whether the last claim of the pool has fewer values than minValues asks for.
    least_types : int or None
        How many instance types there must be to choose from.
    launched : Launched or None
        What the provider launches.
    """

    pool: str
    pods: tuple[str, ...]
    requests: dict[str, str]
    others: dict[str, dict[str, Any]]
    labels: dict[str, str]
    types: tuple[TypePrice, ...]
    cheapest: Launch | None
    min_values_relaxed: bool = False
    launched: Launched | None = field(default=None, compare=False, repr=False)
    least_types: int | None = None

    @property
    def requirements(self) -> dict[str, dict[str, Any]]:
        """By label, values by operator, and ``minValues``."""
        named: dict[str, Any] = {"In": sorted({kind.name for kind in self.types})}
        if self.least_types is not None:
            named["minValues"] = self.least_types
        return self.others | {INSTANCE_TYPE: named}

    @property
    def cost(self) -> HourlyCost:
        """Per hour, of what is launched."""
        return HourlyCost() if self.launched is None else self.launched.cost

    @property
    def price(self) -> float | None:
        """Per hour, of what is launched: at most."""
        return self.cost.shown[0]


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
    karpenter_version : str
    """

    claims: tuple[NewClaim, ...] = ()
    order: tuple[int, ...] = ()
    existing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    errors: dict[str, PodError] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    relaxed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    karpenter_version: str = VERSION

    @property
    def price(self) -> float:
        """Per hour, of what is launched for each claim, at most; of claims without a known price nothing."""
        return rounded(sum(claim.price or 0.0 for claim in self.claims))

    def headline(self) -> str:
        """Return how many nodes would come, for how many pods, in one line."""
        placed = sum(len(claim.pods) for claim in self.claims)
        there = sum(map(len, self.existing.values()))
        cost = HourlyCost.total(claim.cost for claim in self.claims)
        price = cost.text(price_text) if cost.is_known else "at unknown prices"
        return (
            f"Karpenter {self.karpenter_version}: {len(self.claims)} new nodes for {placed} pods, "
            f"{price}; {there} pods fit existing nodes, "
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
                "cheapest": [each.instance_type if each is not None else None for each in cheapest],
                "zone": [each.zone if each is not None else None for each in cheapest],
                "capacity_type": [each.capacity_type if each is not None else None for each in cheapest],
                "price": np.array([nan if claim.price is None else claim.price for claim in claims]),
            }
        )


class ShownTypes(NamedTuple):
    """What claims with the same types show of them: the cheapest first, its launch, and requirements."""

    types: tuple[TypePrice, ...]
    cheapest: Launch | None
    others: dict[str, dict[str, Any]]


Ranking = tuple[Any, ...]
Rank = Callable[[InstanceType, Offering, Offering], Ranking]
"""The rule by which a provider chooses among offerings, given with their type and its cheapest offering: it
launches what ranks lowest."""


class Offers:
    """What the types of a template offer for claims with the same requirements.

    Attributes
    ----------
    launchable : list of list of Offering
        By type, those that could be launched.
    kinds : list of int
        By type, their capacity types, as bits.
    best : list of Offering or None
        By type, the cheapest of them.
    launched : dict
        What a provider launches for claims, by what they have to be below, and the places of their types.
    prices : array of float64
        Of the cheapest; infinite without one.
    """

    def __init__(self, columns: TypeColumns, requirements: RequirementSet) -> None:
        key = requirements.vocabulary.key(CAPACITY_TYPE)
        self.types = [kind.type for kind in columns.types]
        self.launchable = [
            [
                each.offering
                for each in kind.offerings
                if each.offering.is_launchable and not requirements.refusal(each.requirements, undefined=True)
            ]
            for kind in columns.types
        ]
        self.kinds = [key.mask(each.capacity_type for each in of) for of in self.launchable]
        self.best = [min(of, key=_PRICE, default=None) for of in self.launchable]
        self.prices = np.array([inf if best is None else best.price for best in self.best])
        self.shown = [
            TypePrice(kind.name, _known(price))
            for kind, price in zip(columns.types, self.prices.tolist(), strict=True)
        ]
        skipped = {HOSTNAME, *SIMULATED, *requirements.vocabulary.well_known}
        self.labels = {
            name: value
            for name, each in requirements.by_key.items()
            if name not in skipped and (value := each.any_value())
        }
        self.launched: dict[tuple[float | None, ...], Launched | None] = {}
        self._listed: dict[tuple[int, ...], ShownTypes] = {}
        self._ordered: dict[int, list[int]] = {}
        self._ranked: list[list[tuple[Ranking, InstanceType, Offering]]] | None = None
        self._requirements = requirements

    @cached_property
    def worst_prices(self) -> list[float]:
        """By type, the most that a launch could cost: of reserved offerings, else spot, else on-demand."""
        claims = []
        for launchable in self.launchable:
            by_kind: dict[str, float] = {}
            for each in launchable:
                by_kind[each.capacity_type] = max(each.price, by_kind.get(each.capacity_type, each.price))
            kinds = (by_kind[kind] for kind in (RESERVED, "spot", "on-demand") if kind in by_kind)
            claims.append(next(kinds, inf))
        return claims

    def ranked(self, rank: Rank) -> list[list[tuple[Ranking, InstanceType, Offering]]]:
        """By type, what could be launched, with its rank by the rule of the provider; the lowest first."""
        if self._ranked is None:
            self._ranked = [
                sorted([(rank(kind, each, best), kind, each) for each in of if best], key=itemgetter(0))
                for kind, of, best in zip(self.types, self.launchable, self.best, strict=True)
            ]
        return self._ranked

    def by_price(self, types: int) -> list[int]:
        """Places of types, given as bits, the cheapest first."""
        if types not in self._ordered:
            self._ordered[types] = self._sorted(list(bits(types)))
        return self._ordered[types]

    def _sorted(self, places: Sequence[int]) -> list[int]:
        order = np.array(places, np.int32)
        sort_order(self.prices, order)
        return order.tolist()  # type: ignore[no-any-return]

    def shown_of(self, places: Sequence[int]) -> ShownTypes:
        """What a claim with these types shows of them."""
        key = tuple(places)
        if key not in self._listed:
            ordered = self._sorted(places)  # requirements may have changed since the last sort
            launch = None
            if ordered and (best := self.best[ordered[0]]) is not None:
                name = self.types[ordered[0]].name
                reservation = best.reservation_id if best.capacity_type == RESERVED else ""
                launch = Launch(name, best.zone, best.capacity_type, reservation, _known(best.price))
            shown = tuple([self.shown[place] for place in ordered])
            self._listed[key] = ShownTypes(shown, launch, self._written(places))
        return self._listed[key]

    def _written(self, places: Sequence[int]) -> dict[str, dict[str, Any]]:
        """The requirements of a claim with these types, without their names."""
        requirements, vocabulary = self._requirements, self._requirements.vocabulary
        if kinds := reduce(or_, map(self.kinds.__getitem__, places), 0):
            requirements = requirements.narrowed(vocabulary.key(CAPACITY_TYPE).requirement(False, kinds))
        return _written(requirements)


@dataclass(eq=False)
class FinishedClaim:
    """A claim once all pods are placed.

    Attributes
    ----------
    places : list of int
        Its types, the cheapest first.
    below : float or None
        The price below which a launch has to be, so that it is worth a move, where all such types are left.
    """

    claim: Claim
    requirements: RequirementSet
    offers: Offers
    places: list[int]
    launcher: Launcher
    below: float | None = None

    @property
    def launched(self) -> Launched | None:
        """What the provider launches: of claims with the same types the same."""
        known, key = self.offers.launched, (self.below, *self.places)
        if key not in known:
            known[key] = self.launcher(self)
        return known[key]

    def first(self, rank: Rank, how: str) -> Launched | None:
        """Launch any of those offerings that have the lowest rank; where no price is known, any."""
        ranked = self.offers.ranked(rank)
        of_types = [of for place in self.places if (of := ranked[place])]
        if not of_types:
            return None
        lowest = min([of[0][0] for of in of_types])
        every = [each for of in of_types if of[0][0] == lowest for each in of if each[0] == lowest]
        if every[0][2].price == UNKNOWN:
            how, every = WITHOUT_PRICES, sorted(chain(*of_types), key=itemgetter(0))
            every = [each for each in every if each[2].price == UNKNOWN]
        return Launched.among(how, [(kind, offering) for _, kind, offering in every])


Launcher = Callable[[FinishedClaim], Launched | None]
"""What a provider launches for a claim; None for nothing."""


def by_price(kind: InstanceType, price: float) -> Ranking:
    """Rank a type by its price; those without a known price by their size, as what is cheap is small."""
    return price, kind.size if price == UNKNOWN else ()


def cheapest(finished: FinishedClaim) -> Launched | None:
    """Return the cheapest offering: a provider whose rules are not known is taken to launch it."""
    return finished.first(lambda kind, each, _: by_price(kind, each.price), "the provider chooses among")


class Finisher:
    """Finishes claims; those of equal requirements share what their types offer.

    Rules: Karpenter v1.15.0, FinalizeScheduling, Truncate and ToNodeClaim.
    """

    def __init__(self, options: KarpenterOptions, launcher: Launcher = cheapest) -> None:
        self._options, self._launcher = options, launcher
        self._offers: dict[tuple[TypeColumns, RequirementSet], Offers] = {}

    def offers(self, columns: TypeColumns, requirements: RequirementSet) -> Offers:
        """What types offer for claims with some requirements."""
        offers = self._offers.get((columns, requirements))
        if offers is None:
            offers = self._offers[columns, requirements] = Offers(columns, requirements)
        return offers

    def finished(self, claim: Claim) -> FinishedClaim | str:
        """The claim as it would be created; or why its pods get no node, if it lacks values."""
        requirements, columns = _final(claim, self._options), claim.template.columns
        offers = self.offers(columns, requirements)
        places = offers.by_price(claim.types)[: self._options.most_types]
        if requirements.has_min_values and not self._options.best_effort:
            lacking = lacking_values(columns, sum(1 << at for at in places), requirements)
            if lacking:
                text = "pod didn\u2019t schedule because NodePool couldn\u2019t meet minValues requirements"
                text = f"{text}, validating minValues, {lacking_text(lacking)}"
                return with_values(text, NodePool=claim.template.name)
        return FinishedClaim(claim, requirements, offers, places, self._launcher)


def _final(claim: Claim, options: KarpenterOptions) -> RequirementSet:
    """The requirements of a claim, which is fixed to its reservations if it has some."""
    requirements, vocabulary = claim.requirements, claim.requirements.vocabulary
    if not claim.reserved:
        return requirements
    requirements = requirements.having(vocabulary.key(CAPACITY_TYPE).one_of(RESERVED))
    ids = [known.offering.reservation_id for known in claim.reserved]
    return requirements.meet(
        vocabulary.set_of([vocabulary.key(vocabulary.known_labels.reservation_labels[0]).one_of(*ids)])
    )


def new_claim(finished: FinishedClaim) -> NewClaim:
    """The claim as it would be created."""
    claim, offers, template = finished.claim, finished.offers, finished.claim.template
    listed = offers.shown_of(finished.places)
    return NewClaim(
        template.name,
        tuple([candidate.pod.key for candidate in claim.pods]),
        _requests(claim),
        listed.others,
        template.labels | offers.labels,
        listed.types,
        listed.cheapest,
        template.min_values_relaxed,
        finished.launched,
        finished.requirements.get(INSTANCE_TYPE).min_values,
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
    rules: dict[str, dict[str, Any]] = {}
    for name, each in requirements.by_key.items():
        if name in SIMULATED or name == INSTANCE_TYPE:
            continue
        rules[name] = dict(each.as_written())
        if each.min_values is not None:
            rules[name]["minValues"] = each.min_values
    return rules
