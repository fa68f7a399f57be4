"""Functions of templates: those of Go and of scheduler_perf.

Arithmetic is done in float64, whatever the arguments are, and the Int forms truncate towards zero
(kubernetes v1.36, test/integration/scheduler_perf/create.go). ``div`` and ``mod`` are older spellings.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import msgspec


class TemplateError(Exception):
    """An error in a template or its arguments; the caller adds file and line."""


def show(value: Any) -> str:
    """Format a value as Go does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return str(value)


def _number(value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            return float(value)
        except ValueError:
            pass
    raise TemplateError(f"{_quoted(value)} is not a number")


def _quoted(value: Any) -> str:
    return "nil" if value is None else f'"{value}"' if isinstance(value, str) else show(value)


def _int(value: float) -> int:
    if not math.isfinite(value):
        raise TemplateError(f"{value} is not an integer")
    return int(value)


def _add(*numbers: Any) -> float:
    return sum(map(_number, numbers), 0.0)


def _subtract(i: Any, j: Any) -> float:
    return _number(i) - _number(j)


def _multiply(*numbers: Any) -> float:
    return reduce(operator.mul, map(_number, numbers), 1.0)


def _divide(i: Any, j: Any) -> float:
    divisor = _number(j)
    if divisor == 0:
        raise TemplateError("division by zero")
    return _number(i) / divisor


def _mod(i: Any, j: Any) -> int:
    dividend, divisor = _int(_number(i)), _int(_number(j))
    if divisor == 0:
        raise TemplateError("division by zero")
    return int(math.fmod(dividend, divisor))


def _truncated(function: Callable[..., float]) -> Callable[..., int]:
    return lambda *arguments: _int(function(*arguments))


def _and(first: Any, *others: Any) -> Any:
    return next((value for value in (first, *others) if not value), (first, *others)[-1])


def _or(first: Any, *others: Any) -> Any:
    return next((value for value in (first, *others) if value), (first, *others)[-1])


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("missing argument")
    for other in others:
        _comparable(first, other)
    return first in others


def _comparable(i: Any, j: Any) -> None:
    if i is not None and j is not None and type(i) is not type(j):
        raise TemplateError(f"{_quoted(i)} and {_quoted(j)} have types that cannot be compared")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def function(i: Any, j: Any) -> bool:
        _comparable(i, j)
        if not isinstance(i, int | float | str) or isinstance(i, bool) or j is None:
            raise TemplateError(f"{_quoted(i)} has no order")
        return compare(i, j)

    return function


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise TemplateError(f"{_quoted(value)} has no length")
    return len(value.encode()) if isinstance(value, str) else len(value)


def _item(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and type(key) is int and 0 <= key < len(value):
            value = value[key]
        else:
            raise TemplateError(f"{_quoted(value)} has no item {_quoted(key)}")
    return value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "AddFloat": _add,
    "AddInt": _truncated(_add),
    "SubtractFloat": _subtract,
    "SubtractInt": _truncated(_subtract),
    "MultiplyFloat": _multiply,
    "MultiplyInt": _truncated(_multiply),
    "DivideFloat": _divide,
    "DivideInt": _truncated(_divide),
    "div": _truncated(_divide),
    "Mod": _mod,
    "mod": _mod,
    "Int": _truncated(_number),
    "JSON": _json,
    "and": _and,
    "or": _or,
    "not": operator.not_,
    "eq": _equal,
    "ne": lambda i, j: not _equal(i, j),
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "len": _length,
    "index": _item,
    "print": lambda *values: "".join(map(show, values)),
}


def call(name: str, arguments: list[Any]) -> Any:
    """Call a function.

    Raises
    ------
    TemplateError
        For a wrong number of arguments, or arguments that it cannot work with.
    """
    try:
        return FUNCTIONS[name](*arguments)
    except TemplateError as error:
        raise TemplateError(f"{name}: {error}") from None
    except (TypeError, OverflowError):
        raise TemplateError(f"{name}: wrong arguments ({len(arguments)})") from None
