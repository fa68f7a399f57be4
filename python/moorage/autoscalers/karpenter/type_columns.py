"""Instance types as columns: a type is refused by a mask, not by a loop.

Types are bits. A requirement has the mask of the types that could meet it, an amount of a resource that of
the types with as much. Rules: Karpenter v1.15.0, nodeclaim.go (filterInstanceTypesByRequirements) and
pkg/cloudprovider/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from operator import or_

from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage._core.provision.host_table import RESOURCES
from moorage._core.provision.label_requirements import (
    EXCLUDING,
    LabelRequirement,
    RequirementSet,
    Vocabulary,
    bits,
)
from moorage._core.provision.thresholds import Thresholds
from moorage.kube import NodeSelectorRequirement

from ..providers.instance_type import (
    CAPACITY_TYPE,
    RESERVED,
    ZONE,
    InstanceType,
    Offering,
    with_shortages,
)
from ..providers.known_labels import CORE
from .karpenter_options import KarpenterOptions


class KnownOffering(Struct, eq=False):
    """An offering with its requirements."""

    offering: Offering
    requirements: RequirementSet


class KnownType(Struct, eq=False):
    """An instance type with its requirements, and what pods can have of its nodes.

    Attributes
    ----------
    groups : list
        Allocatable amounts, and the available offerings that have them; the first are those of the type.
    unknown : frozenset of str
        Labels of its provider of which it is not known whether the type has them.
    """

    type: InstanceType
    requirements: RequirementSet
    offerings: list[KnownOffering]
    groups: list[tuple[dict[str, int], list[KnownOffering]]]
    unknown: frozenset[str]

    @property
    def name(self) -> str:
        return self.type.name


class SharedParts:
    """What many types have the same.

    Attributes
    ----------
    offerings : dict
        Requirements of offerings by what they are made of.
    stated : dict
        Requirements by the identity of what states them, which types hold: a provider's have the same.
    """

    def __init__(self) -> None:
        self.offerings: dict[tuple[str, str, str, tuple[NodeSelectorRequirement, ...]], RequirementSet] = {}
        self.stated: dict[int, LabelRequirement] = {}


def known_type(of: InstanceType, vocabulary: Vocabulary, shared: SharedParts) -> KnownType:
    """Read an instance type; what its offerings name but not itself, it has in all of theirs.

    A type that has labels below a domain of its provider lacks the others below it. If it has none, they are
    unknown.
    """
    make = vocabulary.requirement
    reservation_id = vocabulary.known_labels.reservation_labels[0]
    for each in of.stated:
        if id(each) not in shared.stated:
            shared.stated[id(each)] = make(each.key, each.operator, each.values)
    own = [shared.stated[id(each)] for each in of.stated]
    offerings = []
    for offering in of.offerings:
        made_of = offering.zone, offering.capacity_type, offering.reservation_id, offering.requirements
        if made_of not in shared.offerings:
            reserved = (
                ("In", (offering.reservation_id,))
                if offering.capacity_type == RESERVED
                else ("DoesNotExist",)
            )
            parts = [
                make(ZONE, "In", (offering.zone,)),
                make(CAPACITY_TYPE, "In", (offering.capacity_type,)),
                make(reservation_id, *reserved),
                *(make(more.key, more.operator, more.values) for more in offering.requirements),
            ]
            shared.offerings[made_of] = vocabulary.set_of(parts)
        offerings.append(KnownOffering(offering, shared.offerings[made_of]))
    groups: dict[frozenset[tuple[str, Quantity]], list[KnownOffering]] = {frozenset(): []}
    for known in offerings:
        if known.offering.available:
            key = frozenset(known.offering.capacity_override.items())
            groups.setdefault(key, []).append(known)
    allocatable = [
        (
            {name: amount.nanos() for name, amount in of.allocatable(dict(override)).items()}
            if override
            else of.room,
            members,
        )
        for override, members in groups.items()
    ]
    every = {offering.requirements for offering in offerings}
    names = frozenset([each.key.name for each in own]).union(*[each.by_key for each in every])
    lacking, unknown = vocabulary.known_labels.beside_those_of(names)
    own += [make(key, "DoesNotExist") for key in lacking]
    return KnownType(of, vocabulary.set_of(own), offerings, allocatable, unknown)


def mask_of(places: Iterable[int]) -> int:
    """The bits at some places."""
    return reduce(or_, [1 << place for place in places], 0)


class TypeColumns:
    """The types of one template, in the order in which claims list them."""

    def __init__(self, types: Sequence[KnownType]) -> None:
        self.types = types
        self.all = (1 << len(types)) - 1
        self._read_groups(types)
        self._stated: dict[str, dict[LabelRequirement, int]] = {}
        self._meeting: dict[LabelRequirement, int] = {}
        self._compatible: dict[RequirementSet, int] = {}
        self._offered: dict[RequirementSet, int] = {}
        self._largest: dict[int, dict[str, int]] = {}

    @cached_property
    def capacity(self) -> Thresholds:
        return Thresholds(
            [{name: amount.nanos() for name, amount in kind.type.capacity.items()} for kind in self.types]
        )

    @cached_property
    def reserved(self) -> int:
        """Types with a reserved offering."""
        return self._mask_where(
            lambda kind: any(each.offering.capacity_type == RESERVED for each in kind.offerings)
        )

    def _mask_where(self, holds: Callable[[KnownType], bool]) -> int:
        return mask_of(place for place, kind in enumerate(self.types) if holds(kind))

    def _read_groups(self, types: Sequence[KnownType]) -> None:
        """Rows of allocatable amounts: one of each type, then those of offerings with others."""
        rows = [(place, *kind.groups[0]) for place, kind in enumerate(types)]
        rows += [(place, *group) for place, kind in enumerate(types) for group in kind.groups[1:]]
        self._rows = Thresholds([amounts for _, amounts, _ in rows])
        self._owners = [1 << place for place, _, _ in rows[len(types) :]]
        self._negative = sum(
            1 << at for at, (_, have, _) in enumerate(rows) if min(have.values(), default=0) < 0
        )
        of_offerings = defaultdict[RequirementSet, list[int]](list)
        for at, (_, _, offerings) in enumerate(rows):
            for known in offerings:
                of_offerings[known.requirements].append(at)
        self._offering_rows = {
            requirements: mask_of(of_rows) for requirements, of_rows in of_offerings.items()
        }

    def _types_of(self, rows: int) -> int:
        """The types of rows."""
        left = rows & self.all
        if extra := rows >> len(self.types):
            for at in bits(extra):
                left |= self._owners[at]
        return left

    def compatible(self, requirements: RequirementSet) -> int:
        """Types whose labels can meet requirements; labels that only one side names do not matter. Those of
        which it is not known whether a type has them are never met."""
        compatible = self._compatible.get(requirements)
        if compatible is None:
            compatible = self.all
            for name, requirement in requirements.by_key.items():
                compatible &= self._meets(name, requirement)
            self._compatible[requirements] = compatible
        return compatible

    def _meets(self, name: str, requirement: LabelRequirement) -> int:
        meeting = self._meeting.get(requirement)
        if meeting is None:
            masks = self._masks(name)
            meeting = self.all & ~reduce(or_, masks.values(), 0)
            excludes = requirement.operator in EXCLUDING
            for theirs, mask in masks.items():
                if theirs.intersects(requirement) or (excludes and theirs.operator in EXCLUDING):
                    meeting |= mask
            meeting &= ~self._mask_where(lambda kind: name in kind.unknown)
            self._meeting[requirement] = meeting
        return meeting

    def _masks(self, name: str) -> dict[LabelRequirement, int]:
        """By what types state of a label, those that state it. Of many labels nothing is asked."""
        masks = self._stated.get(name)
        if masks is None:
            masks = self._stated[name] = defaultdict(int)
            for place, kind in enumerate(self.types):
                if (requirement := kind.requirements.by_key.get(name)) is not None:
                    masks[requirement] |= 1 << place
        return masks

    def _offered_rows(self, requirements: RequirementSet) -> int:
        offered = self._offered.get(requirements)
        if offered is None:
            offered = 0
            for offering, rows in self._offering_rows.items():
                if not requirements.refusal(offering, undefined=True):
                    offered |= rows
            self._offered[requirements] = offered
        return offered

    def offered(self, requirements: RequirementSet) -> int:
        """Types with an available offering that can meet requirements."""
        return self._types_of(self._offered_rows(requirements))

    def fitting(self, amounts: Mapping[str, int], requirements: RequirementSet) -> int:
        """Types with an available offering that can meet requirements, and has the amounts."""
        rows = self._offered_rows(requirements) & ~self._negative
        return self._types_of(self._rows.with_all(amounts, rows))

    def largest_allocatable(self, types: int) -> dict[str, int]:
        """The most that a node of some types has of each resource that tables compare, whatever its
        offering."""
        largest = self._largest.get(types)
        if largest is None:
            rows = types | (-1 << len(self.types) if self._owners else 0)
            largest = self._largest[types] = {name: self._rows.largest(name, rows) for name in RESOURCES}
        return largest

    def within(self, volumes: Mapping[str, frozenset[str]]) -> int:
        """Types that can attach volumes."""

        def can_attach(kind: KnownType) -> bool:
            limits = kind.type.volume_limits
            return all(len(claims) <= limits.get(driver, len(claims)) for driver, claims in volumes.items())

        return self._mask_where(can_attach)

    def values(self, types: int, requirement: LabelRequirement) -> int:
        """Those values of a label that types name and a requirement allows, as bits."""
        named = 0
        for theirs, mask in self._masks(requirement.key.name).items():
            if mask & types:
                named |= theirs.mask
        return requirement.select(named)

    def chosen(self, types: int) -> list[KnownType]:
        return [self.types[place] for place in bits(types)]


def lacking_values(columns: TypeColumns, types: int, requirements: RequirementSet) -> dict[str, int]:
    """The labels of which types have fewer values than minValues asks for, with how many they have."""
    if not requirements.has_min_values or not types:
        return {}
    lacking = {}
    for name, requirement in requirements.by_key.items():
        if requirement.min_values is not None:
            have = columns.values(types, requirement).bit_count()
            if have < requirement.min_values:
                lacking[name] = have
    return lacking


def lacking_text(lacking: Iterable[str]) -> str:
    return f"minValues requirement is not met for label(s) (label(s)=[{' '.join(sorted(lacking))}])"


# ---- what several passes over the same instance types keep: their labels, and the types as columns ---------


class Catalogue:
    """Instance types as passes read them, each once; all passes that share it have the same options."""

    def __init__(self, options: KarpenterOptions) -> None:
        self.vocabulary = Vocabulary(CORE | options.provider)
        self.options = options
        self._types: dict[InstanceType, KnownType] = {}
        self._columns: dict[tuple[KnownType, ...], TypeColumns] = {}
        self._shared = SharedParts()

    def known(self, types: Iterable[InstanceType]) -> list[KnownType]:
        lacking = []
        for kind in types:
            if kind not in self._types:
                there = with_shortages(kind, self.options.unavailable)
                self._types[kind] = known_type(there, self.vocabulary, self._shared)
            lacking.append(self._types[kind])
        return lacking

    def columns(self, types: Sequence[KnownType]) -> TypeColumns:
        key = tuple(types)
        if key not in self._columns:
            self._columns[key] = TypeColumns(key)
        return self._columns[key]
