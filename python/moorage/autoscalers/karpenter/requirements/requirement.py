"""What a label may be: a set of values, or all values but some, within bounds.

Rules: Karpenter v1.15.0, pkg/scheduling/requirement.go. Values of a key are bits of an integer, so that sets
are met, joined and compared as numbers. Equal requirements are one object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

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
    made: dict[tuple[bool, int, int | None, int | None, int | None], Requirement] = msgspec.field(
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
        found = 0
        for value in values:
            found |= self.bit(value)
        return found

    def names(self, mask: int) -> list[str]:
        """The values of a mask, sorted."""
        return sorted(self.values[place] for place in bits(mask))

    def within(self, mask: int, gte: int | None, lte: int | None) -> int:
        """Those values of a mask that are integers within bounds; all if there are none."""
        if gte is None and lte is None:
            return mask
        found = 0
        for place in bits(mask):
            number = self.integers[place]
            if number is None or (gte is not None and number < gte) or (lte is not None and number > lte):
                continue
            found |= 1 << place
        return found

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
        found = self.made.get(parts)
        if found is None:
            found = self.made[parts] = Requirement(self, *parts)
        return found

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
        found = self._met.get(other)
        if found is None:
            found = self._met[other] = self._meet(other)
        return found

    def _bounds(self, other: Requirement) -> tuple[int | None, int | None]:
        gte, lte = (self.gte, other.gte), (self.lte, other.lte)
        return (
            max((one for one in gte if one is not None), default=None),
            min((one for one in lte if one is not None), default=None),
        )

    def _meet(self, other: Requirement) -> Requirement:
        gte, lte = self._bounds(other)
        least = max((one for one in (self.min_values, other.min_values) if one is not None), default=None)
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
