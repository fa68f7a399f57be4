"""Validation rules of fields.

A field names its rules in its annotation, for example ``Annotated[str, one_of("TCP", "UDP")]``. A rule is a
function of the value that raises InputError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from moorage._core.base.quantity import Quantity, parse_value
from moorage._core.base.selectors import requirement_error
from moorage.errors import InputError, shorten

_EXCERPT = 80
_LABEL_VALUE = "at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends"
_MOST_DIGITS = len(str(2**63))
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
MAX_DNS_LABEL = 63
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")

Rule = Callable[[Any], None]


def refuse(error: str | None) -> None:
    """Raise an InputError, unless the message is None.

    Raises
    ------
    InputError
        The message is not None.
    """
    if error is not None:
        raise InputError(error)


def required(value: object) -> None:
    """Rule: the value is not empty.

    Parameters
    ----------
    value : object
        Value of the field.
    """
    if not value:
        raise InputError("required")


def is_dns_label(text: str) -> bool:
    """Whether a text is a DNS label."""
    return len(text) <= MAX_DNS_LABEL and DNS_LABEL.fullmatch(text) is not None


def dns_label(text: str) -> None:
    """Rule: the value is a DNS label.

    Parameters
    ----------
    text : str
        Value of the field.
    """
    required(text)
    if not is_dns_label(text):
        raise InputError(f'"{shorten(text)}" is not a DNS label')


def one_of(*allowed: str, required: bool = False) -> Rule:
    """Return the rule that the value is one of some strings.

    Parameters
    ----------
    *allowed : str
        The allowed values.
    required : bool
        Whether empty values and None are refused.
    """

    def rule(value: str | None) -> None:
        if value not in allowed and (value or required):
            raise InputError(f'must be one of {", ".join(allowed)}, not "{value or ""}"')

    return rule


def between(low: int, high: int | None = None) -> Rule:
    """Return the rule that the value is a number in a range, or None, with the API server's messages.

    Parameters
    ----------
    low : int
        Lower bound.
    high : int, optional
        Upper bound; by default there is none.
    """

    def rule(value: int | None) -> None:
        if value is None or (value >= low and (high is None or value <= high)):
            return
        is_short = high is None or (low == 0 and value < low)
        bounds = f"greater than or equal to {low}" if is_short else f"between {low} and {high}, inclusive"
        raise InputError(f"Invalid value: {value}: must be {bounds}")

    return rule


def at_most(count: int) -> Rule:
    """Return the rule that a list has a limited number of items, or is None.

    Parameters
    ----------
    count : int
        The limit.
    """

    def rule(items: Sequence[object] | None) -> None:
        if items is not None and len(items) > count:
            raise InputError(f"must have at most {count} items, not {len(items)}")

    return rule


def each(rule: Rule) -> Rule:
    """Return the rule that all items of a list, or all values of a map, follow a rule.

    Parameters
    ----------
    rule : Rule
        The rule for one item.
    """

    def of_all(items: tuple[Any, ...] | dict[str, Any] | None) -> None:
        for at, item in items.items() if isinstance(items, dict) else enumerate(items or ()):
            try:
                rule(item)
            except InputError as error:
                raise error.located(path=f"[{at}]") from None

    return of_all


def quantity(raw: str | int | float | None) -> None:
    """Rule: the value is a quantity that is not negative, or None.

    Parameters
    ----------
    raw : str, int, float or None
        Value of the field.
    """
    if raw is None:
        return
    try:
        parse_value(raw)
    except ValueError as error:
        raise InputError(f'"{raw}" is not a quantity: {error}') from None
    negative = raw.startswith("-") if isinstance(raw, str) else raw < 0
    if negative and Quantity(raw).sign() < 0:
        raise InputError(f'Invalid value: "{Quantity(raw)}": must be greater than or equal to 0')


def whole_number(text: str, bits: int = 32) -> int | None:
    """Parse a number in a text of an object: a name, an annotation, a version.

    Parameters
    ----------
    bits : int
        Size of the signed number that Go reads it into (strconv.ParseInt).

    Returns
    -------
    int or None
        None for anything but ASCII digits, and for a number that is too large.
    """
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > _MOST_DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number < 1 << (bits - 1) else None


def share(value: int | str, total: int) -> int:
    """A number, or a percentage of a total, rounded up."""
    return value if isinstance(value, int) else -(-percent(value) * total // 100)


def percent(text: str) -> int:
    """Parse a percentage, with any number of leading zeros.

    Parameters
    ----------
    text : str
        Digits and a percent sign.

    Returns
    -------
    int
        Percent; not limited to 100.
    """
    return int(text.removesuffix("%").lstrip("0") or "0")


def int_or_percent(limited: bool = True) -> Rule:
    """Return the rule that the value is a number, a percentage or None, with the API server's messages.

    Parameters
    ----------
    limited : bool
        Whether a percentage is at most 100%.
    """

    def rule(value: int | str | None) -> None:
        if isinstance(value, int) and value < 0:
            raise InputError(f"Invalid value: {value}: must be greater than or equal to 0")
        if isinstance(value, str):
            if re.fullmatch("[0-9]+%", value) is None:
                raise InputError(f'Invalid value: "{value}": {_PERCENT}')
            digits = len(value.lstrip("0"))
            if limited and (digits > len("100%") or percent(value) > 100):
                raise InputError(f'Invalid value: "{value}": must not be greater than 100%')
            if digits > len("2147483647%"):
                raise InputError(f'Invalid value: "{value}": must be a 32-bit number')

    return rule


def labels(value: Mapping[str, str] | None) -> None:
    """Rule: keys and values are valid for labels, or the value is None.

    Parameters
    ----------
    value : mapping of str to str, or None
        Value of the field.
    """
    for key, text in (value or {}).items():
        error = _label_error(key, text)
        if error is not None:
            raise InputError(error, path=f"[{key}]")


def topology_key(key: str) -> None:
    """Rule: the value is a valid label key.

    Parameters
    ----------
    key : str
        Value of the field.
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
    """Rule: the value is a time in the format of RFC 3339, or None.

    Parameters
    ----------
    text : str or None
        Value of the field.
    """
    if text is None:
        return
    try:
        if _TIMESTAMP.fullmatch(text) is None:
            raise ValueError
        datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f'"{text}" is not a timestamp like 2006-01-02T15:04:05Z') from None
