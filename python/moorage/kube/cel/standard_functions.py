"""Operators and functions of the language itself (cel-spec, langdef.md, list of standard definitions)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .cel_errors import LONG_LIST, EvaluationError, count_work
from .times import (
    add_durations,
    add_time_functions,
    add_to_timestamp,
    duration_text,
    subtract_timestamps,
    timestamp_text,
    to_duration,
    to_timestamp,
)
from .type_checker import (
    Library,
    both_cost,
    constant_cost,
    no_cost,
    pattern_cost,
    product_cost,
    second_cost,
    shorter_cost,
    traversal_cost,
)
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
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    UINT_MAX,
    A,
    B,
    CelType,
    Duration,
    MapValue,
    Optional,
    StructValue,
    Timestamp,
    Uint,
    are_equal,
    are_known_equal,
    check_hashable,
    int_of,
    is_less,
    list_of,
    map_of,
    optional_of,
    text_of_key,
    type_of,
    type_of_value,
    uint_of,
)

# ---- regular expressions -----------------------------------------------------------------------------------
#
# Regular expressions of CEL, which are those of RE2: they take linear time.

_CODES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Codes of errors that RE2 names otherwise than Go's package regexp."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Return a compiled pattern.

    Raises
    ------
    EvaluationError
        The pattern is malformed.
    """
    import re2  # takes long to import, and few selectors match texts

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0]
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        code, _, expression = shown.partition(": ")  # Go's package regexp has other words
        raise EvaluationError(f"error parsing regexp: {_CODES.get(code, code)}: `{expression}`") from None


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches somewhere in a text."""
    return compiled(pattern).search(text) is not None


def _of_evaluation(pattern: str) -> Any:
    try:
        return compiled(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    """Return the first match of a pattern in a text; "" if there is none."""
    match = _of_evaluation(pattern).search(text)
    return "" if match is None else str(match[0])


def find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """Return the first matches of a pattern in a text; all if the limit is negative."""
    matches: list[str] = []
    if limit == 0:
        return ()
    for match in _of_evaluation(pattern).finditer(text):
        matches.append(match[0])
        if len(matches) == limit:
            break
    return tuple(matches)


# ---- standard functions ------------------------------------------------------------------------------------

NUMBERS = (INT, UINT, DOUBLE)
LIST, MAP = list_of(A), map_of(A, B)


def add_standard_functions(library: Library) -> None:
    """Add the overloads of this module."""
    _logic(library)
    _comparisons(library)
    _arithmetic(library)
    _containers(library)
    library.member("contains", [STRING, STRING], BOOL, lambda a, b: b in a, product_cost)
    library.member("startsWith", [STRING, STRING], BOOL, str.startswith, traversal_cost)
    library.member("endsWith", [STRING, STRING], BOOL, str.endswith, traversal_cost)
    library.member("matches", [STRING, STRING], BOOL, matches, pattern_cost)
    library.function("matches", [STRING, STRING], BOOL, matches, pattern_cost)
    _conversions(library)
    add_time_functions(library)


def _logic(library: Library) -> None:
    # Conditionals and logical operators are evaluated by the program; the overloads are for the type checker.
    library.function("_?_:_", [BOOL, A, A], A, _unused, no_cost)
    library.function("!_", [BOOL], BOOL, lambda a: not a)
    library.function("@not_strictly_false", [BOOL], BOOL, _unused, no_cost)


def _unused(*arguments: Any) -> Any:
    raise AssertionError


def _comparisons(library: Library) -> None:
    library.function("_==_", [A, A], BOOL, are_equal, shorter_cost)
    library.function("_!=_", [A, A], BOOL, lambda a, b: not are_known_equal(a, b), shorter_cost)
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    pairs += [(type_of_both, type_of_both) for type_of_both in (BOOL, STRING, BYTES, TIMESTAMP, DURATION)]
    orders: dict[str, Callable[[Any, Any], bool]] = {
        "_<_": is_less,
        "_<=_": lambda a, b: not is_less(b, a),
        "_>_": lambda a, b: is_less(b, a),
        "_>=_": lambda a, b: not is_less(a, b),
    }
    for name, apply in orders.items():
        for left, right in pairs:
            is_text = left in (STRING, BYTES)
            library.function(name, [left, right], BOOL, apply, shorter_cost if is_text else constant_cost)


def _concatenate(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(a) + len(b) > LONG_LIST:
        count_work(len(a) + len(b))
    return a + b


def _arithmetic(library: Library) -> None:
    integers: dict[str, Callable[[int, int], int]] = {
        "_+_": lambda a, b: a + b,
        "_-_": lambda a, b: a - b,
        "_*_": lambda a, b: a * b,
        "_/_": _quotient,
        "_%_": _remainder,
    }
    for name, apply in integers.items():
        library.function(name, [INT, INT], INT, _checked(apply, int_of))
        library.function(name, [UINT, UINT], UINT, _checked(apply, uint_of))
    library.function("_+_", [DOUBLE, DOUBLE], DOUBLE, lambda a, b: a + b)
    library.function("_-_", [DOUBLE, DOUBLE], DOUBLE, lambda a, b: a - b)
    library.function("_*_", [DOUBLE, DOUBLE], DOUBLE, lambda a, b: a * b)
    library.function("_/_", [DOUBLE, DOUBLE], DOUBLE, _divide)
    library.function("_+_", [STRING, STRING], STRING, lambda a, b: a + b, both_cost)
    library.function("_+_", [BYTES, BYTES], BYTES, lambda a, b: a + b, both_cost)
    library.function("_+_", [LIST, LIST], LIST, _concatenate)
    library.function("_+_", [TIMESTAMP, DURATION], TIMESTAMP, add_to_timestamp)
    library.function("_+_", [DURATION, TIMESTAMP], TIMESTAMP, lambda a, b: add_to_timestamp(b, a))
    library.function("_+_", [DURATION, DURATION], DURATION, add_durations)
    library.function("_-_", [TIMESTAMP, TIMESTAMP], DURATION, subtract_timestamps)
    library.function("_-_", [TIMESTAMP, DURATION], TIMESTAMP, lambda a, b: add_to_timestamp(a, _minus(b)))
    library.function("_-_", [DURATION, DURATION], DURATION, lambda a, b: add_durations(a, _minus(b)))
    library.function("-_", [INT], INT, lambda a: int_of(-a))
    library.function("-_", [DOUBLE], DOUBLE, lambda a: -a)


def _checked(apply: Callable[[int, int], int], limit: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda a, b: limit(apply(int(a), int(b)))


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise EvaluationError("integer overflow")
    return a - b * _quotient(a, b)


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    sign = math.copysign(1, a) * math.copysign(1, b)
    return math.nan if a == 0 or math.isnan(a) else math.inf * sign


def _minus(duration: Duration) -> Duration:
    return Duration(-duration.nanoseconds)


def _containers(library: Library) -> None:
    library.function("_[_]", [LIST, INT], A, index_list)
    library.function("_[_]", [MAP, A], B, index_map)
    library.function("_[_]", [optional_of(LIST), INT], optional_of(A), index_optional)
    library.function("_[_]", [optional_of(MAP), A], optional_of(B), index_optional)
    library.function("_[?_]", [LIST, INT], optional_of(A), index_optional)
    library.function("_[?_]", [MAP, A], optional_of(B), index_optional)
    library.function("_[?_]", [optional_of(LIST), INT], optional_of(A), index_optional)
    library.function("_[?_]", [optional_of(MAP), A], optional_of(B), index_optional)
    library.function("@in", [A, LIST], BOOL, _is_element, second_cost)
    library.function("@in", [A, MAP], BOOL, _is_key)
    for of in (STRING, BYTES, LIST, MAP):
        library.function("size", [of], INT, len)
        library.member("size", [of], INT, len)
    library.function("cel.@mapInsert", [MAP, A, B], MAP, lambda a, b, c: a.with_entry(b, c))
    library.function("cel.@mapInsert", [MAP, MAP], MAP, _merge)


def _is_element(value: Any, values: tuple[Any, ...]) -> bool:
    return any(are_known_equal(value, element) for element in values)


def _is_key(value: Any, values: MapValue) -> bool:
    if not values.gives_empty:
        check_hashable(value)
    return isinstance(value, int | float | str) and value in values


def _merge(first: MapValue, other: MapValue) -> MapValue:
    for key, value in other.items():
        first = first.with_entry(key, value)
    return first


def _position(at: Any) -> int:
    """An index as an int; doubles that are integers are indices, too."""
    if type(at) is float:
        if not at.is_integer():
            raise EvaluationError(f"unsupported index value {double_text(at)} in list")
        return int(at)
    if type(at) not in (int, Uint):
        raise EvaluationError(f"unsupported index type '{type_of_value(at)}' in list")
    return int(at)


def index_list(values: tuple[Any, ...], at: Any) -> Any:
    """Return the element of an index."""
    position = _position(at)
    if not 0 <= position < len(values):
        raise EvaluationError(f"index out of bounds: {position}")
    return values[position]


def index_map(values: MapValue, key: Any) -> Any:
    """Return the value of a key."""
    value = values.find(key)
    if value is None:
        raise EvaluationError(f"no such key: {text_of_key(key)}")
    return value[1]


def index(values: Any, key: Any) -> Any:
    """Return the element or value of an index or key in a list or map."""
    if type(values) is tuple:
        return index_list(values, key)
    if type(values) is MapValue:
        return index_map(values, key)
    if type(values) is StructValue:
        return index_map(values.fields, key)
    raise EvaluationError(f"no such key: {text_of_key(key)}")


def index_optional(values: Any, key: Any) -> Optional:
    """Return the optional element or value of an index or key, also of an optional list or map."""
    if type(values) is Optional:
        if not values.is_there:
            return ABSENT
        values = values.value
    if type(values) is StructValue:
        values = values.fields
    if type(values) is tuple:
        at = _position(key)
        return Optional(values[at], True) if 0 <= at < len(values) else ABSENT
    value = values.find(key) if isinstance(values, MapValue) else None
    return ABSENT if value is None else Optional(value[1], True)


def _conversions(library: Library) -> None:
    for of in (INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION):
        library.function("int", [of], INT, to_int)
    for of in (INT, UINT, DOUBLE, STRING):
        library.function("uint", [of], UINT, to_uint)
        library.function("double", [of], DOUBLE, to_double)
    for of in (INT, UINT, DOUBLE, STRING, BOOL, BYTES, TIMESTAMP, DURATION):
        library.function("string", [of], STRING, to_string, traversal_cost if of == BYTES else constant_cost)
    library.function("bytes", [BYTES], BYTES, lambda a: a)
    library.function("bytes", [STRING], BYTES, str.encode, traversal_cost)
    library.function("bool", [BOOL], BOOL, lambda a: a)
    library.function("bool", [STRING], BOOL, _to_bool)
    library.function("dyn", [A], DYN, lambda a: a)
    library.function("type", [A], type_of(A), _type_of)
    for of in (TIMESTAMP, STRING, INT):
        library.function("timestamp", [of], TIMESTAMP, to_timestamp)
    for of in (DURATION, STRING, INT):
        library.function("duration", [of], DURATION, to_duration)


def _type_of(value: Any) -> CelType:
    its_type = type_of_value(value)
    return CelType(its_type.name) if its_type != NULL else NULL


def _failed(value: Any, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_of_value(value).name}' to '{wanted}'")


def to_int(value: Any) -> int:
    """Return the int of a number, text or time."""
    if type(value) is Timestamp:
        return value.nanoseconds // 10**9
    if type(value) is Duration:
        return value.nanoseconds
    if type(value) is float:
        if not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if type(value) is str:
        digits = value[1:] if value[:1] in ("+", "-") else value
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 4000:
            raise _failed(value, "int")
        if not INT_MIN <= int(value) <= INT_MAX:
            raise _failed(value, "int")
    return int_of(int(value))


def to_uint(value: Any) -> Uint:
    """Return the uint of a number or text."""
    if type(value) is float:
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if type(value) is str:
        if not (value.isascii() and value.isdigit()) or len(value) > 4000 or int(value) > UINT_MAX:
            raise _failed(value, "uint")
        return Uint(int(value))
    return uint_of(int(value))


def to_double(value: Any) -> float:
    """Return the double of a number or text."""
    if type(value) is not str:
        return float(value)
    try:
        # what Python would read otherwise than Go
        if (
            not value.isascii()
            or value != value.strip()
            or (value[:1] in ("+", "-") and value[1:].lower() == "nan")
        ):
            raise ValueError
        return float(float.fromhex(value) if "x" in value.lower() and "p" in value.lower() else value)
    except ValueError:
        raise _failed(value, "double") from None


def to_string(value: Any) -> str:
    """Return the text of a value."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return double_text(value)
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if type(value) is Timestamp:
        return timestamp_text(value)
    if type(value) is Duration:
        return duration_text(value)
    return str(value)


def double_text(value: float) -> str:
    """Return the shortest text of a double, as Go's ``strconv.FormatFloat`` with the format 'g'."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    digits = mantissa.removeprefix("-").replace(".", "")
    if exponent:
        power = int(exponent)
    else:
        whole = mantissa.removeprefix("-").partition(".")[0]
        power = len(whole) - 1 if whole != "0" else -(len(digits) - len(digits.lstrip("0")))
    if value != 0 and not -4 <= power < 6:
        digits = digits.strip("0") or "0"
        sign = "-" if value < 0 else ""
        point = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}e{'+' if power >= 0 else '-'}{abs(power):02d}"
    return text.removesuffix(".0")


def _to_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise _failed(text, "bool")
