"""A user's own prices, such as negotiated ones, from a file of comma-separated values."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec
from msgspec import Struct

from moorage.errors import InputError, examples, located, shorten

from .instance_type import InstanceType, Offering
from .labels import CAPACITY_TYPES

COLUMNS = ("type", "zone", "capacityType", "price")


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
            replace(kind, offerings=tuple([self._priced(kind.name, one) for one in kind.offerings]))
            for kind in types
        ]

    def _priced(self, name: str, offering: Offering) -> Offering:
        price = self.of(name, offering.zone, offering.capacity_type)
        return offering if price is None else replace(offering, price=price, is_bound=False)

    def used_on(self, types: Iterable[InstanceType]) -> str:
        """Say that the prices count, and which are of no offering of some types; nothing without prices.

        Raises
        ------
        InputError
            None of them is.
        """
        if not self.by_offering:
            return ""
        offered = set[tuple[str, str, str]]()
        for kind in types:
            for one in kind.offerings:
                offered |= {(kind.name, zone, one.capacity_type) for zone in ("", one.zone)}
        unused = [
            " ".join(filter(None, (name, capacity_type, zone)))
            for name, zone, capacity_type in self.by_offering
            if (name, zone, capacity_type) not in offered
        ]
        if len(unused) == len(self.by_offering):
            text = f"no price of the file is of a type that a NodePool has; its first is of {unused[0]}"
            raise InputError(text, source=self.source)
        about = f", except {len(unused)} of types not offered here: {examples(unused, 3)}" if unused else ""
        return f"; own prices of {self.source}{about}"


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
    names = [one.strip() for one in rows.fieldnames or ()]
    if sorted(names) != sorted(COLUMNS):
        raise InputError(f'expected the columns {",".join(COLUMNS)}, not "{shorten(",".join(names), 80)}"')
    rows.fieldnames = names
    found = dict[tuple[str, str, str], float]()
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
            if (name, zone, capacity_type) in found:
                raise InputError(f"{name} has a price for {capacity_type} in this zone already")
            found[name, zone, capacity_type] = read_price(price, "price")
    if not found:
        raise InputError("the file has no price")
    return OwnPrices(found, source)


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
