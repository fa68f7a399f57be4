"""Functions that Kubernetes adds to CEL: quantities, lists, regular expressions
(k8s.io/apiserver, pkg/cel/library)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.kube.cel import overloads as cost

from ..cel_errors import EvaluationError
from ..cel_types import BOOL, DOUBLE, DURATION, DYN, INT, QUANTITY, STRING, UINT, A, list_of
from ..overloads import Library
from ..values import (
    INT_MAX,
    INT_MIN,
    NO_OVERLOAD,
    Duration,
    Uint,
    are_known_equal,
    check_comparable,
    int_of,
    is_less,
    uint_of,
)
from .list_functions import COMPARABLE
from .regular_expressions import find, find_all
from .times import add_durations

MAX_LIST = 48
"""Values of an attribute that is a list (ResourceSliceMaxAttributeValuesPerDevice)."""


def add_kubernetes_functions(library: Library) -> None:
    """Add the overloads of this module."""
    _quantities(library)
    _lists(library)
    library.member("find", [STRING, STRING], STRING, find, cost.pattern)
    library.member("findAll", [STRING, STRING], list_of(STRING), find_all, cost.pattern)
    library.member("findAll", [STRING, STRING, INT], list_of(STRING), find_all, cost.pattern)


# ---- quantities --------------------------------------------------------------------------------------


def _quantities(library: Library) -> None:
    library.function("quantity", [STRING], QUANTITY, _quantity, cost.traversal)
    library.function("isQuantity", [STRING], BOOL, _is_quantity, cost.traversal)
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


def _is_quantity(text: str) -> bool:
    try:
        Quantity(text)
    except ValueError:
        return False
    return True


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
        library.member("sum", [list_of(of)], of, _summed(zero, add), cost.elements)
    for of in COMPARABLE:
        library.member("isSorted", [list_of(of)], BOOL, _is_sorted, cost.elements)
        library.member("max", [list_of(of)], of, lambda values: _extreme("max", values), cost.elements)
        library.member("min", [list_of(of)], of, lambda values: _extreme("min", values), cost.elements)
    library.member("indexOf", [list_of(A), A], INT, _index_of, cost.elements)
    library.member("lastIndexOf", [list_of(A), A], INT, _last_index_of, cost.elements)
    library.member("includes", [DYN, DYN], BOOL, _includes, cost.elements)


def _summed(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[tuple[Any, ...]], Any]:
    def total(values: tuple[Any, ...]) -> Any:
        found = zero
        for value in values:
            if type(value) is not type(zero):
                raise EvaluationError(NO_OVERLOAD)
            found = add(found, value)
        return found

    return total


def _is_sorted(values: tuple[Any, ...]) -> bool:
    return not any(_is_before(b, a) for a, b in pairwise(values))


def _is_before(one: Any, other: Any) -> bool:
    """Whether a value is less than another: of two types that have an order each, none is."""
    check_comparable(one)
    check_comparable(other)
    try:
        return is_less(one, other)
    except EvaluationError:
        return False


def _extreme(name: str, values: tuple[Any, ...]) -> Any:
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    found = values[0]
    for value in values[1:]:
        if _is_before(found, value) if name == "max" else _is_before(value, found):
            found = value
    return found


def _index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at, one in enumerate(values) if are_known_equal(one, value)), -1)


def _last_index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if are_known_equal(values[at], value)), -1)


def _includes(values: Any, value: Any) -> bool:
    """Whether a list has a value; a value that is no list counts as a list of one."""
    listed = values if isinstance(values, tuple) else (values,)
    if any(are_known_equal(one, value) for one in listed[:MAX_LIST]):
        return True
    if len(listed) > MAX_LIST:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {MAX_LIST} values")
    return False
