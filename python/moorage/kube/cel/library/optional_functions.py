"""Optional values, and sets of the extension "sets" of cel-go."""

from __future__ import annotations

from typing import Any

from ..cel_errors import EvaluationError
from ..cel_types import BOOL, A, list_of, optional_of
from ..overloads import Library
from ..values import ABSENT, Duration, Optional, Timestamp, are_known_equal, size_of

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
