"""Prices: a user's own, those that NodeOverlays give instance types, and what nodes that are there cost."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter

import msgspec
from msgspec import UNSET, Struct, UnsetType

from moorage._core.base.quantity import Quantity, parse
from moorage._core.provision.label_requirements import RequirementSet
from moorage.document import Amount, Count, Document
from moorage.errors import InputError, examples, located, number_of, shorten
from moorage.kube import Node, NodeOverlay, NodePool

from ..hourly_cost import UNKNOWN, HourlyCost
from ..karpenter.karpenter_options import KarpenterOptions
from ..karpenter.pod_validation import in_short, requirement_problems
from ..karpenter.type_columns import Catalogue, KnownType
from .instance_type import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    INSTANCE_TYPE,
    POOL,
    ZONE,
    InstanceType,
    Offering,
    node_offered_as,
)
from .known_labels import KnownLabels

# ---- a user's own prices, such as negotiated ones, from a file of comma-separated values -------------------

COLUMNS = ("type", "zone", "capacityType", "price")
SPOT_UNKNOWN = "spot prices unknown: at most those on demand"
"""What is told where one is not known."""


class OwnPrices(Struct, frozen=True, eq=False):
    """Prices per hour by type, zone ("" for all others) and capacity type, and the name of their file."""

    by_offering: Mapping[tuple[str, str, str], float] = msgspec.field(default_factory=dict)
    source: str = ""

    def of(self, name: str, zone: str, capacity_type: str) -> float | None:
        """Return the price of an offering; None for one that the file does not name."""
        of_all = self.by_offering.get((name, "", capacity_type))
        return self.by_offering.get((name, zone, capacity_type), of_all)

    def put_on(self, types: Iterable[InstanceType]) -> list[InstanceType]:
        """Return types with these prices in place of their own."""
        return [
            replace(kind, offerings=tuple([self._priced(kind.name, offering) for offering in kind.offerings]))
            for kind in types
        ]

    def _priced(self, name: str, offering: Offering) -> Offering:
        price = self.of(name, offering.zone, offering.capacity_type)
        is_open = offering.is_bound or offering.price == UNKNOWN
        if price is None and is_open and offering.capacity_type == "spot":
            bound = self.of(name, offering.zone, "on-demand")
            return offering if bound is None else replace(offering, price=bound, is_bound=True)
        return offering if price is None else replace(offering, price=price, is_bound=False)

    def used_on(self, types: Iterable[InstanceType], nodes: Iterable[Node] = ()) -> str:
        """Say that the prices count, and which are of no offering of some types, and of no node; "" without
        prices.

        Raises
        ------
        InputError
            None of them is.
        """
        if not self.by_offering:
            return ""
        offered = {
            (kind.name, offering.zone, offering.capacity_type)
            for kind in types
            for offering in kind.offerings
        }
        offered |= set(map(bought_as, nodes))
        offered |= {(name, "", capacity_type) for name, _, capacity_type in offered}
        unused = [
            " ".join(filter(None, (name, capacity_type, zone)))
            for name, zone, capacity_type in self.by_offering
            if (name, zone, capacity_type) not in offered
        ]
        if len(unused) == len(self.by_offering):
            text = f"no price of the file is of a type of a NodePool or node; its first is of {unused[0]}"
            raise InputError(text, source=self.source)
        about = f", except {len(unused)} of types not offered here: {examples(unused, 3)}" if unused else ""
        return f"own prices of {self.source}{about}"


NO_PRICES = OwnPrices()


def is_price_list(text: str) -> bool:
    """Whether a text has columns, separated by commas or, by mistake, semicolons, and is no JSON or YAML."""
    first = text.lstrip("\ufeff").partition("\n")[0]
    return bool(set(first) & {",", ";"}) and not set(first) & set("#[]{}:|\t")


def read_prices(text: str, source: str) -> OwnPrices:
    """Read the prices of a file; the first line names the columns.

    Raises
    ------
    InputError
        A column or a value is not as it should be.
    """
    rows = csv.DictReader(text.lstrip("\ufeff").splitlines())
    names = [fieldname.strip() for fieldname in rows.fieldnames or ()]
    if sorted(names) != sorted(COLUMNS):
        raise InputError(f'expected the columns {",".join(COLUMNS)}, not "{shorten(",".join(names), 80)}"')
    rows.fieldnames = names
    prices = dict[tuple[str, str, str], float]()
    for row in rows:
        with located(path=f"line {rows.line_num}"):
            if None in row or None in row.values():
                raise InputError(f"expected {len(COLUMNS)} values")
            name, zone, capacity_type, price = (row[column].strip() for column in COLUMNS)
            if not name:
                raise InputError("required", path="type")
            if capacity_type not in CAPACITY_TYPES:
                expected = ", ".join(CAPACITY_TYPES)
                raise InputError(
                    f'must be one of {expected}, not "{shorten(capacity_type)}"', path="capacityType"
                )
            if (name, zone, capacity_type) in prices:
                raise InputError(f"{name} has a price for {capacity_type} in this zone already")
            prices[name, zone, capacity_type] = read_price(price, "price")
    if not prices:
        raise InputError("the file has no price")
    return OwnPrices(prices, source)


def read_price(text: str, path: str) -> float:
    """Read a price per hour.

    Raises
    ------
    InputError
        It is none.
    """
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise InputError(f'must be a number of at least 0, not "{shorten(text)}"', path=path)
    return price


# ---- NodeOverlays: other prices and more resources for the instance types that they select -----------------
# Rules: Karpenter v1.15.0, pkg/controllers/nodeoverlay, and AdjustedPrice of pkg/cloudprovider/types.go.


def overlaid(
    by_pool: Mapping[str, Sequence[InstanceType]],
    pools: Iterable[NodePool],
    overlays: Iterable[NodeOverlay],
    known: KnownLabels,
) -> tuple[dict[str, Sequence[InstanceType]], list[str]]:
    """Return types by pool with what overlays change, and what each overlay comes to.

    Of overlays that change the same thing that with the larger weight counts. Of equal weights it is the last
    name, and the other one changes nothing at all.
    """
    catalogue, notes = Catalogue(KarpenterOptions(provider=known)), list[str]()
    vocabulary = catalogue.vocabulary
    changed: dict[str, list[_OverlaidType]] = {}
    for pool in pools:
        labels = vocabulary.of_labels({POOL: pool.name, **pool.spec.template.metadata.labels})
        of_pool = catalogue.known(by_pool.get(pool.name, ()))
        changed[pool.name] = [_OverlaidType(each, labels.meet(each.requirements)) for each in of_pool]
    by_name = sorted(overlays, key=lambda overlay: overlay.name, reverse=True)
    for overlay in sorted(by_name, key=lambda each: -(each.spec.weight or 0)):
        wanted = overlay.spec.requirements or ()
        required = vocabulary.of_terms(wanted)
        every = chain.from_iterable(changed.values())
        chosen = [(each, offered) for each in every if (offered := each.chosen(required))]
        problems = [in_short(text) for each in wanted for text in requirement_problems(each, known)]
        if any(each.conflicts(overlay, offered) for each, offered in chosen):
            problems.append("another one of equal weight changes the same")
        if problems or not chosen:
            why = "; ".join(problems) or "no type of a NodePool meets its requirements"
            notes.append(f"NodeOverlay {overlay.name} changes nothing: {why}")
            continue
        for each, offered in chosen:
            each.take(overlay, offered)
        count = len({each.known.name for each, _ in chosen})
        notes.append(
            f"NodeOverlay {overlay.name} changes {number_of(count, 'instance type', 'instance types')}"
        )
    return {pool: [kind.result() for kind in types] for pool, types in changed.items()}, notes


class _OverlaidType(Struct, eq=False):
    """A type of a pool, and what overlays change.

    Attributes
    ----------
    requirements : RequirementSet
        Those of the type and the pool.
    prices : dict
        By the requirements of offerings, the first price that was set, and the least weight that set one.
    last : (int, set of str)
        Weight and resources of the overlay that was the last to set resources.
    """

    known: KnownType
    requirements: RequirementSet
    prices: dict[RequirementSet, tuple[str, int]] = msgspec.field(default_factory=dict)
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    last: tuple[int, frozenset[str]] = (0, frozenset())

    def chosen(self, required: RequirementSet) -> list[RequirementSet]:
        """The offerings that meet requirements."""
        if self.requirements.refusal(required, undefined=False):
            return []
        every = [offering.requirements for offering in self.known.offerings]
        return [each for each in every if not required.refusal(each, undefined=True)]

    def conflicts(self, overlay: NodeOverlay, offered: Iterable[RequirementSet]) -> bool:
        """Whether an overlay of equal weight has changed the same."""
        weight, (least, resources) = overlay.spec.weight or 0, self.last
        has_price = _price(overlay) and any(self.prices.get(each, ("", -1))[1] == weight for each in offered)
        return bool(has_price) or (least == weight and not resources.isdisjoint(overlay.spec.capacity))

    def take(self, overlay: NodeOverlay, offered: Iterable[RequirementSet]) -> None:
        weight, price = overlay.spec.weight or 0, _price(overlay)
        if price:
            for each in offered:
                self.prices[each] = self.prices.get(each, (price, 0))[0], weight
        if overlay.spec.capacity:
            more = {name: parse(raw) for name, raw in overlay.spec.capacity.items()}
            self.capacity, self.last = more | self.capacity, (weight, frozenset(more))

    def result(self) -> InstanceType:
        """The type as it is then."""
        if not (self.prices or self.capacity):
            return self.known.type
        prices = [self.prices.get(offering.requirements, ("", 0))[0] for offering in self.known.offerings]
        return _with_changes(self.known.type, tuple(prices), tuple(self.capacity.items()))


@lru_cache(4096)
def _with_changes(
    kind: InstanceType, prices: tuple[str, ...], capacity: tuple[tuple[str, Quantity], ...]
) -> InstanceType:
    """A type with other prices of its offerings ("" for no change) and more resources. It is the same object
    in each pass, as catalogues know types by identity."""
    offerings = [
        _priced(offering, change) if change else offering
        for offering, change in zip(kind.offerings, prices, strict=True)
    ]
    return replace(kind, capacity={**kind.capacity, **dict(capacity)}, offerings=tuple(offerings))


def _price(overlay: NodeOverlay) -> str:
    return overlay.spec.price or overlay.spec.price_adjustment or ""


def _priced(offering: Offering, change: str) -> Offering:
    """An offering at another price, or at one that is higher or lower by an amount or by a share."""
    if not change.startswith(("+", "-")):
        return replace(offering, price=float(change), is_bound=False)
    share = change.endswith("%")
    amount = float(change.removesuffix("%"))
    price = offering.price * (1 + amount / 100) if share else offering.price + amount
    return replace(offering, price=max(price, 0.0))


# ---- what nodes that are there cost, by the prices of a provider's instance types --------------------------


class NodesPrice(Document, frozen=True):
    """How many nodes there are, and what they cost."""

    nodes: Count
    price: Amount
    """Per hour, of the nodes whose price is known; at most."""
    unknown: Count
    """Nodes without a known price."""
    least: Amount | UnsetType = UNSET
    """Where the price is a bound, as a spot price is not known, or the provider chooses: the least."""

    @classmethod
    def of(cls, prices: Iterable[HourlyCost]) -> NodesPrice:
        every = list(prices)
        known = [price for price in every if price.is_known]
        most, least = HourlyCost.total(known).shown
        return cls(len(every), most or 0.0, len(every) - len(known), least)

    @property
    def cost(self) -> HourlyCost:
        """Of the nodes whose price is known."""
        return HourlyCost.of(self.least, self.price)

    def __str__(self) -> str:
        nodes = number_of(self.nodes, "node", "nodes")
        if self.unknown == self.nodes:
            return nodes if not self.nodes else f"{nodes} of unknown price"
        unknown = f" without {self.unknown} of unknown price" if self.unknown else ""
        return f"{nodes} {at_price(self.cost)}{unknown}"


def at_price(price: HourlyCost) -> str:
    """Say what nodes come at, per hour."""
    return f"{'at' if price.least == price.most else 'for'} {price.text()}"


def foreign_zones(nodes: Iterable[Node], types: Iterable[InstanceType]) -> list[str]:
    """Return a warning if no type is offered in a zone of the nodes, as with types of another region."""
    offered = {offering.zone for kind in types for offering in kind.offerings} - {""}
    there = {node.metadata.labels.get(ZONE, "") for node in nodes} - {""} if offered else set()
    if not there or there & offered:
        return []
    here, elsewhere = (examples(sorted(zones), 3) for zones in (there, offered))
    return [f"The instance types are offered in {elsewhere} alone; the nodes are in {here}."]


def bought_as(node: Node) -> tuple[str, str, str]:
    """Return type, zone and capacity type of a node; without a label of its provider it is on demand."""
    labels = node.metadata.labels
    usual = "spot" if "spot" in node_offered_as(node) else "on-demand"
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), labels.get(CAPACITY_TYPE) or usual


def prices_by(types: Iterable[InstanceType]) -> Callable[[Node], HourlyCost]:
    """Return what a node costs per hour: as much as the cheapest offering of its type, zone and capacity
    type."""
    prices: dict[tuple[str, str, str], HourlyCost] = {}
    for kind in types:
        for offering in kind.offerings:
            key = kind.name, offering.zone, offering.capacity_type
            prices[key] = min(offering.cost, prices.get(key, HourlyCost()), key=attrgetter("most"))

    return lambda node: prices.get(bought_as(node), HourlyCost())
