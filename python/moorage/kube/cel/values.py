"""Types and values of CEL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from moorage._core.base.quantity import Quantity

from .cel_errors import LONG_LIST, EvaluationError, count_work

# ---- cel types ---------------------------------------------------------------------------------------------
#
# Types of CEL and the rules by which one can stand for another (cel-go, checker/types.go).


class CelType(Struct, frozen=True):
    """A type.

    Attributes
    ----------
    name : str
        ``int``, ``list``, ``kubernetes.Quantity``, …; of a type parameter its own name, with `is_parameter`.
    parameters : tuple of CelType
        Element, or key and value, or the type that a type is.
    is_parameter : bool
        Whether it stands for any type, the same at each place.
    """

    name: str
    parameters: tuple[CelType, ...] = ()
    is_parameter: bool = False

    def __str__(self) -> str:
        if self.parameters:
            return f"{self.name}({', '.join(map(str, self.parameters))})"
        return f"<{self.name}>" if self.is_parameter else _SHOWN.get(self.name, self.name)

    @property
    def is_dynamic(self) -> bool:
        """Whether the type is known when an expression is evaluated only."""
        return self.name in ("dyn", "any", "error")


_SHOWN = {"null_type": "null"}
BOOL, INT, UINT, DOUBLE = CelType("bool"), CelType("int"), CelType("uint"), CelType("double")
STRING, BYTES, NULL = CelType("string"), CelType("bytes"), CelType("null_type")
DYN, ANY, ERROR = CelType("dyn"), CelType("any"), CelType("error")
TIMESTAMP, DURATION = CelType("google.protobuf.Timestamp"), CelType("google.protobuf.Duration")
QUANTITY, SEMVER = CelType("kubernetes.Quantity"), CelType("kubernetes.Semver")
URL, FORMAT = CelType("kubernetes.URL"), CelType("kubernetes.NamedFormat")
IP, CIDR = CelType("net.IP"), CelType("net.CIDR")
DEVICE = CelType("kubernetes.DRADevice")
A, B = CelType("A", is_parameter=True), CelType("B", is_parameter=True)


def list_of(element: CelType) -> CelType:
    """Return the type of lists of `element`."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps from `key` to `value`."""
    return CelType("map", (key, value))


def type_of(of: CelType) -> CelType:
    """Return the type of the type `of`."""
    return CelType("type", (of,))


def optional_of(of: CelType) -> CelType:
    """Return the type of optional values of `of`."""
    return CelType("optional_type", (of,))


TYPE_NAMES = {
    **{plain.name: plain for plain in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION)},
    **{plain.name: plain for plain in (IP, CIDR)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": CelType("type"),
    "optional_type": optional_of(DYN),
}
"""Types that an expression can name."""

Substitutions = dict[str, CelType]
"""Type by name of a type parameter."""


def substitute(of: CelType, substitutions: Substitutions, *, final: bool = False) -> CelType:
    """Replace type parameters by what was found for them.

    Parameters
    ----------
    final : bool
        Whether parameters for which nothing was found become ``dyn``.
    """
    while of.is_parameter and of.name in substitutions:
        of = substitutions[of.name]
    if of.is_parameter:
        return DYN if final else of
    if not of.parameters:
        return of
    return CelType(
        of.name, tuple([substitute(parameter, substitutions, final=final) for parameter in of.parameters])
    )


def are_assignable(
    given: list[CelType], wanted: list[CelType], substitutions: Substitutions
) -> Substitutions | None:
    """Return the substitutions with which arguments fit parameters, or None.

    Parameters
    ----------
    given, wanted : list of CelType
        Types of the arguments, and of the parameters.
    substitutions : dict of str to CelType
        What was found before; not changed.
    """
    if len(given) != len(wanted):
        return None
    trial = dict(substitutions)
    if all(_assign(given_type, other, trial) for given_type, other in zip(given, wanted, strict=True)):
        return trial
    return None


def _assign(given: CelType, wanted: CelType, substitutions: Substitutions) -> bool:
    if wanted.is_parameter:
        return _bind(given, wanted, substitutions)
    if given.is_parameter:
        return _bind(wanted, given, substitutions)
    if given.is_dynamic or wanted.is_dynamic:
        return True
    if NULL in (given, wanted):
        of = wanted if given == NULL else given
        may_be_null = ("kubernetes.", "net.", "optional_type")
        return of in (NULL, TIMESTAMP, DURATION) or of.name.startswith(may_be_null)
    if given.name != wanted.name:
        return False
    if given.name == "type":
        return True
    if len(given.parameters) != len(wanted.parameters):
        return False
    return all(_assign(a, b, substitutions) for a, b in zip(given.parameters, wanted.parameters, strict=True))


def _bind(other: CelType, parameter: CelType, substitutions: Substitutions) -> bool:
    """Let a parameter stand for a type; the more general one stays."""
    if other == parameter:
        return True
    known = substitutions.get(parameter.name)
    if known is not None:
        if known == other:
            return True
        if not _assign(other, known, substitutions):
            return False
        general = more_general(other, known)
        if not _mentions(general, parameter.name, substitutions):
            substitutions[parameter.name] = general
        return True
    if _mentions(other, parameter.name, substitutions):
        return False
    substitutions[parameter.name] = other
    return True


def _mentions(of: CelType, name: str, substitutions: Substitutions) -> bool:
    if of.is_parameter:
        return of.name == name or (
            of.name in substitutions and _mentions(substitutions[of.name], name, substitutions)
        )
    return any(_mentions(parameter, name, substitutions) for parameter in of.parameters)


def more_general(first: CelType, other: CelType) -> CelType:
    """Return the more general of two compatible types; the first if neither is."""
    return first if _is_as_general(first, other) else other


def _is_as_general(first: CelType, other: CelType) -> bool:
    if first.is_dynamic or first.is_parameter:
        return True
    if other.is_dynamic or other.is_parameter:
        return False
    if first.name != other.name or len(first.parameters) != len(other.parameters):
        return first == NULL if NULL in (first, other) else False
    return all(_is_as_general(a, b) for a, b in zip(first.parameters, other.parameters, strict=True))


# ---- values ------------------------------------------------------------------------------------------------
#
# Values of CEL: integers, doubles, strings, bools, lists, maps, and the classes of this module.
#
# An int stands for CEL's int, `Uint` for its uint, a tuple for a list, `MapValue` for a map, `CelType` for a
# type.

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
NO_OVERLOAD = "no such overload"


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


class Timestamp(Struct, frozen=True, order=True):
    """A time in nanoseconds since 1970-01-01T00:00:00Z."""

    nanoseconds: int


class Duration(Struct, frozen=True, order=True):
    """A length of time in nanoseconds."""

    nanoseconds: int


class Optional(Struct, frozen=True, eq=False):
    """A value that may be missing."""

    value: Any = None
    is_there: bool = False


ABSENT = Optional()


class MapValue:
    """A map in the order of insertion.

    Keys that are equal as numbers are one key; bools are no numbers.

    Parameters
    ----------
    gives_empty : bool
        Whether an unknown key has an empty map as its value, though it is not in the map.
    """

    __slots__ = ("_convert", "_entries", "_raw", "gives_empty")
    _raw: dict[str, Any]
    _convert: Callable[[Any], Any]
    _entries: dict[Any, tuple[Any, Any]]

    def __init__(self, entries: Iterable[tuple[Any, Any]] = (), gives_empty: bool = False) -> None:
        self._entries = {_key(key): (key, value) for key, value in entries}
        self.gives_empty = gives_empty

    @classmethod
    def lazy(cls, raw: dict[str, Any], convert: Callable[[Any], Any]) -> MapValue:
        """Return a map whose values are converted when it is first looked into."""
        value = cls.__new__(cls)
        value._raw, value._convert, value.gives_empty = raw, convert, False
        return value

    def __getattr__(self, name: str) -> Any:
        if name != "_entries":
            raise AttributeError(name)
        convert = self._convert
        self._entries = {key: (key, convert(item)) for key, item in self._raw.items()}
        return self._entries

    def find(self, key: Any) -> tuple[Any, Any] | None:
        """Return the key and value of a key, or None."""
        entry = self._entries.get(_key(key))
        if entry is None and self.gives_empty:
            return key, EMPTY_MAP
        return entry

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


class StructValue(Struct, frozen=True, eq=False):
    """A value of a type with fields; those that are not set have no value."""

    of: CelType
    fields: MapValue


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


def register(of: type, as_type: CelType, unhashable: str = "") -> None:
    """Name the type of the values of a class that Kubernetes adds to CEL.

    Parameters
    ----------
    unhashable : str, optional
        The Go type, if its values cannot be keys of Go maps.
    """
    _TYPES[of] = as_type
    _STRICT.add(of)
    if unhashable:
        _UNHASHABLE[of] = unhashable


_STRICT: set[type] = {Quantity}
"""Classes whose values, on the left of an equation, accept only their own type and null on the right."""
_UNHASHABLE: dict[type, str] = {bytes: "types.Bytes"}


def check_hashable(value: Any) -> None:
    """Raise the error of cel-go for a value that it looks up in a Go map, and cannot."""
    name = _UNHASHABLE.get(type(value))
    if name:
        raise EvaluationError(f"internal error: runtime error: hash of unhashable type {name}")


def type_of_value(value: Any) -> CelType:
    """Return the type of a value; elements of lists and maps are ``dyn``."""
    return value.of if type(value) is StructValue else _TYPES[type(value)]


def has_type(value: Any, wanted: CelType) -> bool:
    """Whether a value may be an argument for a parameter; of a list or map, the first entry tells."""
    if wanted.is_dynamic or wanted.is_parameter:
        return True
    if type_of_value(value).name != wanted.name:
        return False
    if type(value) is tuple and value:
        return has_type(value[0], wanted.parameters[0])
    if type(value) is MapValue and len(value):
        return all(map(has_type, next(iter(value.items())), wanted.parameters))
    return True


def check_comparable(value: Any) -> None:
    """Raise the error of cel-go for a value that has no order among those of its type."""
    if type(value) not in _NUMBERS and type(value) not in _ORDERED:
        raise EvaluationError(NO_OVERLOAD)


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal: numbers of all types by value, others of one type only.

    Raises
    ------
    EvaluationError
        The left value is of a type that Kubernetes adds, and the right one is neither of that type nor null.
    """
    kind, other_kind = type(left), type(right)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        if kind is float or other_kind is float:
            return float(left) == float(right)
        return bool(left == right)
    if kind is not other_kind:
        if kind in _STRICT and right is not None and _TYPES[kind] is not _TYPES[other_kind]:
            raise EvaluationError(NO_OVERLOAD)
        return False
    if kind is tuple:
        count_work(len(left))
        return len(left) == len(right) and not any(map(_differ, left, right))
    if kind is MapValue:
        count_work(len(left))
        return len(left) == len(right) and all(
            (entry := right.find(key)) is not None and key in right and not _differ(value, entry[1])
            for key, value in left.items()
        )
    if kind is StructValue:
        return left.of == right.of and are_equal(left.fields, right.fields)
    if kind is Optional:
        if left.is_there and right.is_there and right.value is None and type(left.value) in _STRICT:
            raise EvaluationError(NO_OVERLOAD)  # upstream does not ask for null here
        return left.is_there == right.is_there and (not left.is_there or are_equal(left.value, right.value))
    return bool(left == right)


def _differ(left: Any, right: Any) -> bool:
    """Whether elements of lists or maps differ; cel-go takes an error for equal there."""
    try:
        return not are_equal(left, right)
    except EvaluationError:
        return False


def are_known_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal; an error counts as no, as in ``!=`` and wherever a list is searched."""
    try:
        return are_equal(left, right)
    except EvaluationError:
        return False


_NUMBERS = frozenset((int, Uint, float))
_ORDERED = frozenset((bool, str, bytes, Timestamp, Duration))


def is_less(first: Any, other: Any) -> bool:
    """Whether a value comes before another of its type; numbers of all types compare."""
    kind, other_kind = type(first), type(other)
    if kind in _NUMBERS and other_kind in _NUMBERS and float in (kind, other_kind):
        a, b = float(first), float(other)
        if a != a or b != b:
            raise EvaluationError("NaN values cannot be ordered")
        return a < b
    if (kind in _NUMBERS and other_kind in _NUMBERS) or (kind is other_kind and kind in _ORDERED):
        return bool(first < other)
    raise EvaluationError(NO_OVERLOAD)


def of_json(value: Any) -> Any:
    """Return a JSON value as a value of CEL."""
    kind = type(value)
    if kind is dict:
        return MapValue.lazy(value, of_json)
    return tuple([of_json(item) for item in value]) if kind is list else value


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
