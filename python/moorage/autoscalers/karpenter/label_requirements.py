"""Requirements on labels: algebra over sets of values, of one label and of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from moorage.kube import NodeSelectorRequirement
from moorage.kube.model.autoscaling import NodeRequirement
from moorage.kube.model.node import HOSTNAME

from ..providers.known_labels import CORE, NOTHING, KnownLabels

# ---- what a label may be: a set of values, or all values but some, within bounds ---------------------------
# Rules: Karpenter v1.15.0, pkg/scheduling/requirement.go. Values of a key are bits of an integer, so that
# sets are met, joined and compared as numbers. Equal requirements are one object.

EXCLUDING = ("NotIn", "DoesNotExist")
"""Operators that a node without the label meets too."""
INTEGER = re.compile(r"[+-]?[0-9]+")
LAST = 2**63 - 1
_MOST_SHOWN = 5


def go_integer(text: str) -> int | None:
    """The number that Go's strconv.Atoi reads; None where it fails."""
    number = int(text) if text.isascii() and INTEGER.fullmatch(text) else None
    return number if number is not None and -LAST - 1 <= number <= LAST else None


def bits(mask: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class Key(Struct, eq=False):
    """A label, the values that were seen of it, each with a bit, and all requirements on it."""

    name: str
    values: list[str] = msgspec.field(default_factory=list)
    integers: list[int | None] = msgspec.field(default_factory=list)
    places: dict[str, int] = msgspec.field(default_factory=dict)
    requirements: dict[tuple[bool, int, int | None, int | None, int | None], Requirement] = msgspec.field(
        default_factory=dict
    )

    def bit(self, value: str) -> int:
        """The bit of a value."""
        place = self.places.get(value)
        if place is None:
            place = self.places[value] = len(self.values)
            self.values.append(value)
            self.integers.append(go_integer(value))
        return 1 << place

    def mask(self, values: Iterable[str]) -> int:
        mask = 0
        for value in values:
            mask |= self.bit(value)
        return mask

    def names(self, mask: int) -> list[str]:
        """The values of a mask, sorted."""
        return sorted(self.values[place] for place in bits(mask))

    def within(self, mask: int, gte: int | None, lte: int | None) -> int:
        """Those values of a mask that are integers within bounds; all if there are none."""
        if gte is None and lte is None:
            return mask
        bits_met = 0
        for place in bits(mask):
            number = self.integers[place]
            if number is None or (gte is not None and number < gte) or (lte is not None and number > lte):
                continue
            bits_met |= 1 << place
        return bits_met

    def requirement(
        self,
        complement: bool,
        mask: int,
        gte: int | None = None,
        lte: int | None = None,
        min_values: int | None = None,
    ) -> Requirement:
        """The requirement that is so; always the same object."""
        parts = (complement, mask, gte, lte, min_values)
        known = self.requirements.get(parts)
        if known is None:
            known = self.requirements[parts] = Requirement(self, *parts)
        return known

    def one_of(self, *values: str) -> Requirement:
        return self.requirement(False, self.mask(values))

    @property
    def exists(self) -> Requirement:
        return self.requirement(True, 0)


class Requirement(Struct, eq=False):
    """What a key may be: `mask` has the values that it allows, or with `complement` those it excludes."""

    key: Key
    complement: bool
    mask: int
    gte: int | None
    lte: int | None
    min_values: int | None
    _met: dict[Requirement, Requirement] = msgspec.field(default_factory=dict)
    _text: str = ""

    @property
    def operator(self) -> str:
        """In, NotIn, Exists (bounds included) or DoesNotExist."""
        if self.complement:
            return "NotIn" if self.mask else "Exists"
        return "In" if self.mask else "DoesNotExist"

    @property
    def is_single(self) -> bool:
        """Whether exactly one value is left."""
        return not self.complement and self.mask.bit_count() == 1

    def select(self, mask: int) -> int:
        """Those values of a mask that are allowed."""
        kept = mask & ~self.mask if self.complement else mask & self.mask
        return self.key.within(kept, self.gte, self.lte)

    def allows(self, value: str) -> bool:
        return bool(self.select(self.key.bit(value)))

    def meet(self, other: Requirement) -> Requirement:
        """What meets both."""
        met = self._met.get(other)
        if met is None:
            met = self._met[other] = self._meet(other)
        return met

    def _bounds(self, other: Requirement) -> tuple[int | None, int | None]:
        gte, lte = (self.gte, other.gte), (self.lte, other.lte)
        return (
            max((each for each in gte if each is not None), default=None),
            min((each for each in lte if each is not None), default=None),
        )

    def _meet(self, other: Requirement) -> Requirement:
        gte, lte = self._bounds(other)
        least = max(
            (min_value for min_value in (self.min_values, other.min_values) if min_value is not None),
            default=None,
        )
        if gte is not None and lte is not None and gte > lte:
            return self.key.requirement(False, 0, min_values=least)
        if self.complement and other.complement:
            mask = self.key.within(self.mask | other.mask, gte, lte)
            return self.key.requirement(True, mask, gte, lte, least)
        mask = self.mask & ~other.mask if other.complement else self.mask & other.mask
        if self.complement:
            mask = other.mask & ~self.mask
        return self.key.requirement(False, self.key.within(mask, gte, lte), min_values=least)

    def intersects(self, other: Requirement) -> bool:
        """Whether some value meets both."""
        gte, lte = self._bounds(other)
        if gte is not None and lte is not None and gte > lte:
            return False
        met = self.meet(other)
        return met.complement or bool(met.mask)

    def with_min_values(self, least: int) -> Requirement:
        return self.key.requirement(self.complement, self.mask, self.gte, self.lte, least)

    def any_value(self) -> str:
        """A value that is allowed: the first by name; of a complement the smallest number; "" for none."""
        if not self.complement:
            return self.key.names(self.mask)[0] if self.mask else ""
        return str(self.gte if self.gte is not None else 0)

    def as_written(self) -> Iterator[tuple[str, list[str]]]:
        """Operator and values, as a NodeClaim has them; two for two bounds."""
        if self.gte is not None:
            yield "Gte", [str(self.gte)]
        if self.lte is not None:
            yield "Lte", [str(self.lte)]
        if self.gte is None and self.lte is None:
            yield self.operator, self.key.names(self.mask)

    def __str__(self) -> str:
        """As Karpenter's messages show it."""
        if not self._text:
            text = f"{self.key.name} {self.operator}"
            if self.mask:
                names = self.key.names(self.mask)
                if len(names) > _MOST_SHOWN:
                    names[_MOST_SHOWN:] = [f"and {len(names) - _MOST_SHOWN} others"]
                text += f" [{' '.join(names)}]"
            text += "" if self.gte is None else f" >={self.gte}"
            text += "" if self.lte is None else f" <={self.lte}"
            self._text = text + ("" if self.min_values is None else f" minValues {self.min_values}")
        return self._text


# ---- requirements on several labels, and whether nodes or claims with them could meet others ---------------
# Rules: Karpenter v1.15.0, pkg/scheduling/requirements.go. Equal sets are one object, which remembers what
# it was compared and met with.


class RequirementSet(Struct, eq=False):
    """Requirements by label."""

    vocabulary: Vocabulary
    by_key: Mapping[str, Requirement]
    has_min_values: bool
    _compatible: dict[tuple[RequirementSet, bool], str] = msgspec.field(default_factory=dict)
    _intersects: dict[RequirementSet, bool] = msgspec.field(default_factory=dict)
    _met: dict[RequirementSet | Requirement, RequirementSet] = msgspec.field(default_factory=dict)

    def meet(self, other: RequirementSet) -> RequirementSet:
        """What meets both."""
        met = self._met.get(other)
        if met is None:
            met = self._met[other] = self.vocabulary.set_of([*self.by_key.values(), *other.by_key.values()])
        return met

    def narrowed(self, requirement: Requirement) -> RequirementSet:
        """What meets one more requirement."""
        met = self._met.get(requirement)
        if met is None:
            met = self._met[requirement] = self.vocabulary.set_of([*self.by_key.values(), requirement])
        return met

    def having(self, requirement: Requirement) -> RequirementSet:
        """These with one requirement in place of that on its label."""
        return self.vocabulary.interned(dict(self.by_key) | {requirement.key.name: requirement})

    def without(self, name: str) -> RequirementSet:
        if name not in self.by_key:
            return self
        return self.vocabulary.interned({key: each for key, each in self.by_key.items() if key != name})

    def get(self, name: str) -> Requirement:
        """The requirement on a label; Exists if there is none."""
        return self.by_key.get(name) or self.vocabulary.key(name).exists

    def intersects(self, other: RequirementSet) -> bool:
        """Whether all labels that both name have values that meet both."""
        intersects = self._intersects.get(other)
        if intersects is None:
            intersects = self._intersects[other] = not self._clashes(other)
        return intersects

    def _clashes(self, other: RequirementSet) -> list[str]:
        clashes = []
        for name in sorted(self.by_key.keys() & other.by_key.keys()):
            ours, theirs = self.by_key[name], other.by_key[name]
            if ours.intersects(theirs) or (ours.operator in EXCLUDING and theirs.operator in EXCLUDING):
                continue
            clashes.append(f"key {name}, {theirs} not in {ours}")
        return clashes

    def refusal(self, other: RequirementSet, undefined: bool) -> str:
        """Why nothing with these requirements can meet others; "" if it could.

        Parameters
        ----------
        undefined : bool
            Whether well known labels that these requirements do not name can still become anything.
        """
        question = (other, undefined)
        refusal = self._compatible.get(question)
        if refusal is None:
            refusal = self._compatible[question] = self._refusal(other, undefined)
        return refusal

    def _refusal(self, other: RequirementSet, undefined: bool) -> str:
        known = self.vocabulary.well_known if undefined else ()
        for name in sorted(other.by_key.keys() - self.by_key.keys()):
            if name not in known and other.by_key[name].operator not in EXCLUDING:
                return f'label "{name}" does not have known values{self._hint(name, known)}'
        return "; ".join(self._clashes(other))

    def _hint(self, name: str, known: Iterable[str]) -> str:
        """The label that was probably meant."""
        before, slash, after = name.partition("/")
        suffix = after if slash else before
        for label in (*sorted(known), *sorted({*self.by_key, HOSTNAME})):
            if name in label or label.endswith(suffix):
                return f' (typo of "{label}"?)'
        return ""

    def __str__(self) -> str:
        """As Karpenter's messages show them: without the name of the host."""
        return ", ".join(sorted(str(each) for name, each in self.by_key.items() if name != HOSTNAME))


class Vocabulary:
    """All labels, values and sets of requirements of one pass.

    Parameters
    ----------
    provider : KnownLabels
        What Karpenter knows by its provider.
    """

    def __init__(self, provider: KnownLabels = NOTHING) -> None:
        self.known_labels = CORE | provider
        self.well_known = self.known_labels.known
        self._keys: dict[str, Key] = {}
        self._sets: dict[frozenset[Requirement], RequirementSet] = {}
        self._of_labels: dict[frozenset[tuple[str, str]], RequirementSet] = {}
        self.empty = self.interned({})

    def key(self, name: str) -> Key:
        """A label, under the name as which it is read."""
        name = self.known_labels.key(name)
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = Key(name)
        return key

    def requirement(
        self, name: str, operator: str, values: Iterable[str] = (), min_values: int | None = None
    ) -> Requirement:
        """A requirement as written in an object."""
        key, values = self.key(name), tuple(values)
        match operator:
            case "In":
                return key.requirement(False, key.mask(values), min_values=min_values)
            case "NotIn":
                return key.requirement(True, key.mask(values), min_values=min_values)
            case "DoesNotExist":
                return key.requirement(False, 0, min_values=min_values)
            case "Gt" | "Lt" | "Gte" | "Lte":
                number = _bound(values[0] if values else "")
                if operator == "Gt" and number == LAST:
                    return key.requirement(False, 0)
                if operator in ("Gt", "Gte"):
                    gte = number + (operator == "Gt")
                    return key.requirement(True, 0, gte=gte, min_values=min_values)
                lte = number - (operator == "Lt")
                return key.requirement(True, 0, lte=lte, min_values=min_values)
        return key.requirement(True, 0, min_values=min_values)

    def of_labels(self, labels: Mapping[str, str]) -> RequirementSet:
        key = frozenset(labels.items())
        known = self._of_labels.get(key)
        if known is None:
            terms = [self.requirement(name, "In", (value,)) for name, value in labels.items()]
            known = self._of_labels[key] = self.set_of(terms)
        return known

    def of_terms(self, terms: Iterable[NodeSelectorRequirement | NodeRequirement]) -> RequirementSet:
        return self.set_of([self.requirement(term.key, term.operator, term.values) for term in terms])

    def set_of(self, requirements: Iterable[Requirement]) -> RequirementSet:
        """Requirements together; several on one label are met."""
        by_key: dict[str, Requirement] = {}
        for requirement in requirements:
            before = by_key.get(requirement.key.name)
            by_key[requirement.key.name] = requirement if before is None else requirement.meet(before)
        return self.interned(by_key)

    def interned(self, by_key: dict[str, Requirement]) -> RequirementSet:
        whole = frozenset(by_key.values())
        known = self._sets.get(whole)
        if known is None:
            least = any(each.min_values is not None for each in by_key.values())
            known = self._sets[whole] = RequirementSet(self, by_key, least)
        return known


def _bound(text: str) -> int:
    """The bound that Karpenter reads from a text: 0 from no number, the last number from a larger one."""
    return max(-LAST - 1, min(LAST, int(text))) if text.isascii() and INTEGER.fullmatch(text) else 0
