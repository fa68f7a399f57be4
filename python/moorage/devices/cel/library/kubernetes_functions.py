"""Functions that Kubernetes adds to CEL: quantities, lists, regular expressions, named formats
(k8s.io/apiserver, pkg/cel/library)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.devices.cel import overloads as cost
from moorage.devices.cel.cel_errors import EvaluationError
from moorage.devices.cel.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    FORMAT,
    INT,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    list_of,
    optional_of,
)
from moorage.devices.cel.overloads import Library
from moorage.devices.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    NO_OVERLOAD,
    Duration,
    Optional,
    Uint,
    are_equal,
    int_of,
    is_less,
    register,
    uint_of,
)

from .net_functions import is_url
from .regular_expressions import find, find_all
from .times import add_durations, timestamp_from_text

MAX_LIST = 48
"""Values of an attribute that is a list (ResourceSliceMaxAttributeValuesPerDevice)."""

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"


def add_kubernetes_functions(library: Library) -> None:
    """Add the overloads of this module.

    Parameters
    ----------
    library : Library
    """
    _quantities(library)
    _lists(library)
    _formats(library)
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
    value = _integer(quantity)
    return float(quantity.milli_value()) / 1000 if value is None else float(value)


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
    for of in (INT, UINT, DOUBLE, BOOL, STRING, BYTES, DURATION, TIMESTAMP):
        library.member("isSorted", [list_of(of)], BOOL, _is_sorted, cost.elements)
        library.member("max", [list_of(of)], of, lambda values: _extreme("max", values), cost.elements)
        library.member("min", [list_of(of)], of, lambda values: _extreme("min", values), cost.elements)
    library.member("indexOf", [list_of(A), A], INT, _index_of, cost.elements)
    library.member("lastIndexOf", [list_of(A), A], INT, _last_index_of, cost.elements)
    library.member("includes", [DYN, DYN], BOOL, _includes, cost.elements)


def _summed(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[tuple[Any, ...]], Any]:
    def total(values: tuple[Any, ...]) -> Any:
        found = zero
        for one in values:
            if type(one) is not type(zero):
                raise EvaluationError(NO_OVERLOAD)
            found = add(found, one)
        return found

    return total


def _is_sorted(values: tuple[Any, ...]) -> bool:
    return not any(is_less(b, a) for a, b in pairwise(values))


def _extreme(name: str, values: tuple[Any, ...]) -> Any:
    if not values:
        raise EvaluationError(f"{name} called on empty list")
    found = values[0]
    for one in values[1:]:
        if is_less(found, one) if name == "max" else is_less(one, found):
            found = one
    return found


def _index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at, one in enumerate(values) if are_equal(one, value)), -1)


def _last_index_of(values: tuple[Any, ...], value: Any) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if are_equal(values[at], value)), -1)


def _includes(values: Any, value: Any) -> bool:
    """Whether a list has a value; a value that is no list counts as a list of one."""
    listed = values if isinstance(values, tuple) else (values,)
    if any(are_equal(one, value) for one in listed[:MAX_LIST]):
        return True
    if len(listed) > MAX_LIST:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {MAX_LIST} values")
    return False


# ---- named formats -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format of texts."""

    name: str


register(NamedFormat, FORMAT)


def _matches(pattern: str, limit: int) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > limit:
            return f"must be no more than {limit} characters"
        return "" if compiled.fullmatch(text) else f"must match the regular expression {pattern}"

    return check


def _is_bytes(text: str) -> str:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return "invalid base64"
    return ""


def _is_date(text: str) -> str:
    try:
        if len(text) != 10:
            raise ValueError
        date.fromisoformat(text)
    except ValueError:
        return "invalid date"
    return ""


def _is_time(text: str) -> str:
    try:
        timestamp_from_text(text)
    except EvaluationError:
        return "invalid datetime"
    return ""


_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_FORMATS: dict[str, Callable[[str], str]] = {
    "dns1123Label": _matches(_LABEL, 63),
    "dns1123Subdomain": _matches(_SUBDOMAIN, 253),
    "dns1035Label": _matches(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", 63),
    "qualifiedName": _matches(rf"(?:{_SUBDOMAIN}/)?{_NAME}", 317),
    "dns1123LabelPrefix": _matches(rf"{_LABEL}-?", 63),
    "dns1123SubdomainPrefix": _matches(rf"{_SUBDOMAIN}[-.]?", 253),
    "dns1035LabelPrefix": _matches(r"[a-z](?:[-a-z0-9]*[a-z0-9])?-?", 63),
    "labelValue": _matches(rf"(?:{_NAME})?", 63),
    "uri": lambda text: "" if is_url(text) else "invalid URI",
    "uuid": _matches(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}", 36),
    "byte": _is_bytes,
    "date": _is_date,
    "datetime": _is_time,
}


def _formats(library: Library) -> None:
    library.function("format.named", [STRING], optional_of(FORMAT), _named)
    for name in _FORMATS:
        library.function(f"format.{name}", [], FORMAT, lambda name=name: NamedFormat(name))
    library.member("validate", [FORMAT, STRING], optional_of(list_of(STRING)), _validate, cost.both)


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name), True) if name in _FORMATS else ABSENT


def _validate(of: NamedFormat, text: str) -> Optional:
    wrong = _FORMATS[of.name](text)
    return Optional((wrong,), True) if wrong else ABSENT
