"""Rules that validation applies to fields. A field names its rules in its annotation, as in
``Annotated[str, one_of("TCP", "UDP")]``; a rule is a function of the value that raises InputError."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from moorage._core.base.quantity import Quantity, parse_value
from moorage._core.base.selectors import requirement_error
from moorage.errors import InputError, shorten

_EXCERPT = 80
_LABEL_VALUE = "at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends"
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")

Rule = Callable[[Any], None]


def refuse(error: str | None) -> None:
    """Raise an InputError, unless the error is None.

    Parameters
    ----------
    error : str or None
    """
    if error is not None:
        raise InputError(error)


def required(value: object) -> None:
    """A rule: the value is not empty.

    Parameters
    ----------
    value : object
    """
    if not value:
        raise InputError("required")


def one_of(*allowed: str, required: bool = False) -> Rule:
    """A rule: the value is one of some strings.

    Parameters
    ----------
    *allowed : str
    required : bool
        Whether empty values and None are refused.

    Returns
    -------
    Rule
    """

    def rule(value: str | None) -> None:
        if value not in allowed and (value or required):
            raise InputError(f'must be one of {", ".join(allowed)}, not "{value or ""}"')

    return rule


def between(low: int, high: int | None = None) -> Rule:
    """A rule: the value is a number in a range, or None.

    Parameters
    ----------
    low : int
    high : int, optional
        Without it there is no upper bound.

    Returns
    -------
    Rule
    """
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"

    def rule(value: int | None) -> None:
        if value is not None and (value < low or (high is not None and value > high)):
            raise InputError(f"must be {bounds}, not {value}")

    return rule


def each(rule: Rule) -> Rule:
    """A rule: all items of a list, or all values of a map, follow a rule.

    Parameters
    ----------
    rule : Rule

    Returns
    -------
    Rule
    """

    def of_all(items: tuple[Any, ...] | dict[str, Any]) -> None:
        for at, item in items.items() if isinstance(items, dict) else enumerate(items):
            try:
                rule(item)
            except InputError as error:
                raise error.located(path=f"[{at}]") from None

    return of_all


def quantity(raw: str | int | float | None) -> None:
    """A rule: the value is a quantity that is not negative, or None.

    Parameters
    ----------
    raw : str, int, float or None
    """
    if raw is None:
        return
    try:
        parse_value(raw)
    except ValueError as error:
        raise InputError(f'"{raw}" is not a quantity: {error}') from None
    negative = raw.startswith("-") if isinstance(raw, str) else raw < 0
    if negative and Quantity(raw).sign() < 0:
        raise InputError(f"must not be negative, not {raw}")


def labels(value: Mapping[str, str] | None) -> None:
    """A rule: keys and values are those of labels; None is allowed.

    Parameters
    ----------
    value : mapping of str to str, or None
    """
    for key, text in (value or {}).items():
        error = _label_error(key, text)
        if error is not None:
            raise InputError(error, path=f"[{key}]")


def topology_key(key: str) -> None:
    """A rule: the value is the key of a label.

    Parameters
    ----------
    key : str
    """
    required(key)
    refuse(_label_error(key, ""))


@lru_cache(maxsize=65536)
def _label_error(key: str, value: str) -> str | None:
    if requirement_error(key, "In", (value,), node=False) is None:
        return None
    if requirement_error(key, "Exists", (), node=False) is not None:
        return f'"{shorten(key, _EXCERPT)}" is not a label key'
    return f'"{shorten(value, _EXCERPT)}" is not a label value: {_LABEL_VALUE}'


def timestamp(text: str | None) -> None:
    """A rule: the value is a time as in RFC 3339, or None.

    Parameters
    ----------
    text : str or None
    """
    if text is None:
        return
    try:
        if _TIMESTAMP.fullmatch(text) is None:
            raise ValueError
        datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f'"{text}" is not a timestamp like 2006-01-02T15:04:05Z') from None
