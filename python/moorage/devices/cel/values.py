"""Values of CEL: integers, doubles, strings, bools, lists, maps, and the classes of this module.

An int stands for CEL's int, `Uint` for its uint, a tuple for a list, `MapValue` for a map, `CelType` for a
type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from moorage._core.base.quantity import Quantity

from .cel_errors import EvaluationError
from .cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from .work import LONG_LIST, count_work

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
NO_OVERLOAD = "no such overload"


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A time in nanoseconds since 1970-01-01T00:00:00Z."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be missing."""

    value: Any = None
    is_there: bool = False


ABSENT = Optional()


class MapValue:
    """A map in the order of insertion.

    Keys that are equal as numbers are one key; bools are no numbers.

    Parameters
    ----------
    entries : iterable of (key, value)
    gives_empty : bool
        Whether an unknown key has an empty map as its value, though it is not in the map.
    """

    __slots__ = ("_entries", "gives_empty")

    def __init__(self, entries: Iterable[tuple[Any, Any]] = (), gives_empty: bool = False) -> None:
        self._entries = {_key(key): (key, value) for key, value in entries}
        self.gives_empty = gives_empty

    def find(self, key: Any) -> tuple[Any, Any] | None:
        """Return the key and value of a key, or None."""
        found = self._entries.get(_key(key))
        if found is None and self.gives_empty:
            return key, EMPTY_MAP
        return found

    def __contains__(self, key: Any) -> bool:
        return _key(key) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return pairs of key and value."""
        return iter(self._entries.values())

    def with_entry(self, key: Any, value: Any) -> MapValue:
        """Return a map with one more entry."""
        if key in self:
            raise EvaluationError(f"insert failed: key {text_of_key(key)} already exists")
        if len(self) > LONG_LIST:
            count_work(len(self))
        return MapValue((*self.items(), (key, value)))


EMPTY_MAP = MapValue()


def _key(key: Any) -> Any:
    if type(key) is bool:
        return ("bool", key)
    if isinstance(key, int | float | str):
        return key
    raise EvaluationError("unsupported key type")


def text_of_key(key: Any) -> str:
    """Return a key as errors show it."""
    return str(key).lower() if type(key) is bool else str(key)


_TYPES: dict[type, CelType] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    Quantity: QUANTITY,
    tuple: list_of(DYN),
    MapValue: map_of(DYN, DYN),
    CelType: type_of(DYN),
    Optional: optional_of(DYN),
}


def register(of: type, as_type: CelType) -> None:
    """Name the type of the values of a class.

    Parameters
    ----------
    of : type
    as_type : CelType
    """
    _TYPES[of] = as_type


def type_of_value(value: Any) -> CelType:
    """Return the type of a value; elements of lists and maps are ``dyn``."""
    return _TYPES[type(value)]


def has_type(value: Any, wanted: CelType) -> bool:
    """Whether a value may be the argument for a parameter of this type."""
    return wanted.is_dynamic or wanted.is_parameter or _TYPES[type(value)].name == wanted.name


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal: numbers of all types by value, others of one type only."""
    kind, other_kind = type(one), type(other)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        if kind is float or other_kind is float:
            return float(one) == float(other)
        return bool(one == other)
    if kind is not other_kind:
        return False
    if kind is tuple:
        count_work(len(one))
        return len(one) == len(other) and all(are_equal(a, b) for a, b in zip(one, other, strict=True))
    if kind is MapValue:
        count_work(len(one))
        return len(one) == len(other) and all(
            (found := other.find(key)) is not None and key in other and are_equal(value, found[1])
            for key, value in one.items()
        )
    if kind is Optional:
        return one.is_there == other.is_there and (not one.is_there or are_equal(one.value, other.value))
    return bool(one == other)


_NUMBERS = frozenset((int, Uint, float))
_ORDERED = frozenset((bool, str, bytes, Timestamp, Duration))


def is_less(one: Any, other: Any) -> bool:
    """Whether a value comes before another of its type; numbers of all types compare."""
    kind, other_kind = type(one), type(other)
    if kind in _NUMBERS and other_kind in _NUMBERS and float in (kind, other_kind):
        a, b = float(one), float(other)
        if a != a or b != b:
            raise EvaluationError("NaN values cannot be ordered")
        return a < b
    if (kind in _NUMBERS and other_kind in _NUMBERS) or (kind is other_kind and kind in _ORDERED):
        return bool(one < other)
    raise EvaluationError(NO_OVERLOAD)


def size_of(value: Any) -> int:
    """Return the size of a value that the cost of a call depends on: of strings, lists and maps; else 1."""
    return len(value) if isinstance(value, str | bytes | tuple | MapValue) else 1


def int_of(value: int) -> int:
    """Return an int, or raise the error of an overflow."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def uint_of(value: int) -> Uint:
    """Return a uint, or raise the error of an overflow."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")
