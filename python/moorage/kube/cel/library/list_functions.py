"""The extension "lists" of cel-go, version 3."""

from __future__ import annotations

from typing import Any

from ..cel_errors import EvaluationError
from ..cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    list_of,
    optional_of,
)
from ..overloads import Library
from ..values import ABSENT, Optional, are_known_equal, is_less
from ..work import count_work

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
    found: list[Any] = []
    for value in values:
        found.extend(_flatten(value, depth - 1) if depth and isinstance(value, tuple) else (value,))
    return tuple(found)


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
    found: list[Any] = []
    for value in values:
        count_work(len(found))
        if not any(are_known_equal(value, other) for other in found):
            found.append(value)
    return tuple(found)


def _optional(values: Values) -> Optional:
    return Optional(values[0], True) if values else ABSENT
