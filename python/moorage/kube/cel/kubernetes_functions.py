"""Functions beyond the language: Kubernetes' own, and extensions of cel-go for lists, sets and optionals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from moorage._core.base.quantity import Quantity

from .cel_errors import EvaluationError, count_work
from .standard_functions import add_standard_functions, find, find_all
from .string_functions import add_string_functions
from .text_formats import add_format_functions, add_net_functions, add_semver_functions, succeeds
from .times import add_durations
from .type_checker import Library, elements_cost, pattern_cost, traversal_cost
from .values import (
    ABSENT,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    INT_MAX,
    INT_MIN,
    NO_OVERLOAD,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    Duration,
    Optional,
    Timestamp,
    Uint,
    are_known_equal,
    check_comparable,
    int_of,
    is_less,
    list_of,
    optional_of,
    size_of,
    uint_of,
)

# ---- list functions ----------------------------------------------------------------------------------------
#
# The extension "lists" of cel-go, version 3.

COMPARABLE = (INT, UINT, DOUBLE, BOOL, STRING, BYTES, DURATION, TIMESTAMP)
LIST = list_of(A)
Values = tuple[Any, ...]


def add_list_functions(library: Library) -> None:
    """Add the overloads of this module."""
    member = library.member
    member("slice", [LIST, INT, INT], LIST, _slice)
    member("flatten", [list_of(LIST)], LIST, lambda values: _flatten(values, 1))
    member("flatten", [list_of(DYN), INT], list_of(DYN), _flatten)
    for of in COMPARABLE:
        member("sort", [list_of(of)], list_of(of), lambda values: _sorted(values, values))
        member("@sortByAssociatedKeys", [LIST, list_of(of)], LIST, _sorted)
    library.function("lists.range", [INT], list_of(INT), _range)
    member("reverse", [LIST], LIST, lambda values: values[::-1])
    member("distinct", [LIST], LIST, _distinct)
    member("first", [LIST], optional_of(A), lambda values: _optional(values[:1]))
    member("last", [LIST], optional_of(A), lambda values: _optional(values[-1:]))


def _slice(values: Values, start: int, end: int) -> Values:
    what = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        raise EvaluationError(f"{what}negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{what}start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"{what}list is length {len(values)}")
    return values[start:end]


def _flatten(values: Values, depth: int) -> Values:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    count_work(len(values))
    items: list[Any] = []
    for value in values:
        items.extend(_flatten(value, depth - 1) if depth and isinstance(value, tuple) else (value,))
    return tuple(items)


class _Key:
    """A key by which lists are sorted."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Key) -> bool:
        return is_less(self.value, other.value)


def _sorted(values: Values, keys: Values) -> Values:
    count_work(len(values))
    if len({type(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    order = sorted(range(len(values)), key=lambda at: _Key(keys[at]))
    return tuple([values[at] for at in order])


def _range(count: int) -> Values:
    count_work(max(count, 0))
    return tuple(range(count))


def _distinct(values: Values) -> Values:
    distinct: list[Any] = []
    for value in values:
        count_work(len(distinct))
        if not any(are_known_equal(value, other) for other in distinct):
            distinct.append(value)
    return tuple(distinct)


def _optional(values: Values) -> Optional:
    return Optional(values[0], True) if values else ABSENT


# ---- kubernetes functions ----------------------------------------------------------------------------------
#
# Functions that Kubernetes adds to CEL: quantities, lists, regular expressions
# (k8s.io/apiserver, pkg/cel/library).

MAX_LIST = 48
"""Values of an attribute that is a list (ResourceSliceMaxAttributeValuesPerDevice)."""


def add_kubernetes_functions(library: Library) -> None:
    """Add the overloads of this module."""
    _quantities(library)
    _lists(library)
    library.member("find", [STRING, STRING], STRING, find, pattern_cost)
    library.member("findAll", [STRING, STRING], list_of(STRING), find_all, pattern_cost)
    library.member("findAll", [STRING, STRING, INT], list_of(STRING), find_all, pattern_cost)


# ---- quantities --------------------------------------------------------------------------------------


def _quantities(library: Library) -> None:
    library.function("quantity", [STRING], QUANTITY, _quantity, traversal_cost)
    library.function("isQuantity", [STRING], BOOL, succeeds(Quantity), traversal_cost)
    library.function("sign", [QUANTITY], INT, lambda a: a.sign())  # upstream declares no member
    library.member("isInteger", [QUANTITY], BOOL, lambda a: _integer(a) is not None)
    library.member("asInteger", [QUANTITY], INT, _as_integer)
    library.member("asApproximateFloat", [QUANTITY], DOUBLE, _as_float)
    library.member("add", [QUANTITY, QUANTITY], QUANTITY, lambda a, b: a + b)
    library.member("add", [QUANTITY, INT], QUANTITY, lambda a, b: a + Quantity(b))
    library.member("sub", [QUANTITY, QUANTITY], QUANTITY, lambda a, b: a - b)
    library.member("sub", [QUANTITY, INT], QUANTITY, lambda a, b: a - Quantity(b))
    library.member("isGreaterThan", [QUANTITY, QUANTITY], BOOL, lambda a, b: a > b)
    library.member("isLessThan", [QUANTITY, QUANTITY], BOOL, lambda a, b: a < b)
    library.member("compareTo", [QUANTITY, QUANTITY], INT, lambda a, b: (a > b) - (a < b))


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _integer(quantity: Quantity) -> int | None:
    value = quantity.value()  # rounded up
    return value if quantity == Quantity(value) and INT_MIN <= value <= INT_MAX else None


def _as_integer(quantity: Quantity) -> int:
    value = _integer(quantity)
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _as_float(quantity: Quantity) -> float:
    text = str(quantity)
    number = text.rstrip("numkKMGTPEi")
    return float(Fraction(number) * _FACTORS[text[len(number) :]])


_FACTORS = {
    **{suffix: Fraction(10) ** (3 * at - 9) for at, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"))},
    **{f"{suffix}i": Fraction(1024) ** at for at, suffix in enumerate("KMGTPE", 1)},
}


# ---- lists -------------------------------------------------------------------------------------------


def _lists(library: Library) -> None:
    sums: list[tuple[Any, Any, Callable[[Any, Any], Any]]] = [
        (INT, 0, lambda a, b: int_of(a + b)),
        (UINT, Uint(0), lambda a, b: uint_of(a + b)),
        (DOUBLE, 0.0, lambda a, b: a + b),
        (DURATION, Duration(0), add_durations),
    ]
    for of, zero, add in sums:
        library.member("sum", [list_of(of)], of, _summed(zero, add), elements_cost)
    for of in COMPARABLE:
        library.member("isSorted", [list_of(of)], BOOL, _is_sorted, elements_cost)
        library.member("max", [list_of(of)], of, lambda values: _extreme("max", values), elements_cost)
        library.member("min", [list_of(of)], of, lambda values: _extreme("min", values), elements_cost)
    library.member("indexOf", [list_of(A), A], INT, _index_of, elements_cost)
    library.member("lastIndexOf", [list_of(A), A], INT, _last_index_of, elements_cost)
    library.member("includes", [DYN, DYN], BOOL, _includes, elements_cost)


def _summed(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[tuple[Any, ...]], Any]:
    def total(values: tuple[Any, ...]) -> Any:
        total = zero
        for value in values:
            if type(value) is not type(zero):
                raise EvaluationError(NO_OVERLOAD)
            total = add(total, value)
        return total

    return total


def _is_sorted(values: tuple[Any, ...]) -> bool:
    return not any(_is_before(b, a) for a, b in pairwise(values))


def _is_before(value: Any, other: Any) -> bool:
    """Whether a value is less than another: of two types that have an order each, none is."""
    check_comparable(value)
    check_comparable(other)
    try:
        return is_less(value, other)
    except EvaluationError:
        return False


def _extreme(name: str, values: tuple[Any, ...]) -> Any:
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    extreme = values[0]
    for value in values[1:]:
        if _is_before(extreme, value) if name == "max" else _is_before(value, extreme):
            extreme = value
    return extreme


def _index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at, item in enumerate(values) if are_known_equal(item, value)), -1)


def _last_index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if are_known_equal(values[at], value)), -1)


def _includes(values: Any, value: Any) -> bool:
    """Whether a list has a value; a value that is no list counts as a list of one."""
    listed = values if isinstance(values, tuple) else (values,)
    if any(are_known_equal(item, value) for item in listed[:MAX_LIST]):
        return True
    if len(listed) > MAX_LIST:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {MAX_LIST} values")
    return False


# ---- optional functions ------------------------------------------------------------------------------------
#
# Optional values, and sets of the extension "sets" of cel-go.

_LISTS = [list_of(A), list_of(A)]
_ZEROS = (Duration(0), Timestamp(-62135596800 * 10**9))


def add_optional_functions(library: Library) -> None:
    """Add the overloads of this module."""
    library.function("optional.of", [A], optional_of(A), lambda a: Optional(a, True))
    library.function("optional.ofNonZeroValue", [A], optional_of(A), _of_non_zero)
    library.function("optional.none", [], optional_of(A), lambda: ABSENT)
    library.member("hasValue", [optional_of(A)], BOOL, lambda a: a.is_there)
    library.member("value", [optional_of(A)], A, _value)
    library.member(
        "or", [optional_of(A), optional_of(A)], optional_of(A), lambda a, b: a if a.is_there else b
    )
    library.member("orValue", [optional_of(A), A], A, lambda a, b: a.value if a.is_there else b)
    for add, name in ((library.function, "optional.unwrap"), (library.member, "unwrapOpt")):
        add(name, [list_of(optional_of(A))], list_of(A), _unwrap)
    library.function("sets.contains", _LISTS, BOOL, _contains, _pairs)
    library.function("sets.intersects", _LISTS, BOOL, _intersects, _pairs)
    library.function(
        "sets.equivalent", _LISTS, BOOL, lambda a, b: _contains(a, b) and _contains(b, a), _pairs
    )


def _of_non_zero(value: Any) -> Optional:
    is_zero = value in _ZEROS if isinstance(value, Timestamp | Duration) else not value
    return ABSENT if is_zero else Optional(value, True)


def _value(value: Optional) -> Any:
    if not value.is_there:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _unwrap(values: tuple[Optional, ...]) -> tuple[Any, ...]:
    return tuple([value.value for value in values if value.is_there])


def _pairs(*values: Any) -> int:
    return 1 + size_of(values[0]) * size_of(values[1])


def _contains(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return all(any(are_known_equal(value, other) for value in values) for other in others)


def _intersects(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return any(are_known_equal(value, other) for value in values for other in others)


# ---- all functions -----------------------------------------------------------------------------------------
#
# The functions that Kubernetes has in CEL, of all its libraries.


@lru_cache(1)
def library() -> Library:
    """Return the functions of expressions."""
    library = Library()
    add_standard_functions(library)
    add_string_functions(library)
    add_kubernetes_functions(library)
    add_list_functions(library)
    add_format_functions(library)
    add_net_functions(library)
    add_semver_functions(library)
    add_optional_functions(library)
    return library
