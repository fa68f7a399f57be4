"""Durations as Go reads them: ``1h30m``, ``1.5s``, ``300ms``; nanoseconds as numbers."""

from __future__ import annotations

import re

from .field_errors import quote

SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5
    "μs": 1_000,  # U+03BC
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LIMIT = 2**63


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration (Go's ``time.ParseDuration``).

    Raises
    ------
    ValueError
        With Go's text.
    """
    invalid = ValueError(f"time: invalid duration {quote(text)}")
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        match = _TERM.match(rest)
        if match is None or not (match[1] or match[2]):
            raise invalid
        unit = match[3]
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += _nanoseconds(match[1] or "0", match[2] or "", _UNITS[unit])
        if total > _LIMIT:
            raise invalid
        rest = rest[match.end() :]
    if total == _LIMIT and not negative:
        raise invalid
    return -total if negative else total


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    """Go counts the whole part in integers and the fraction in doubles; digits beyond 2^63 are dropped."""
    value = int(whole[:40]) * unit
    digits = fraction
    while digits and int(digits) >= _LIMIT:
        digits = digits[:-1]
    if digits and int(digits):
        value += int(float(int(digits)) * (float(unit) / float(10 ** len(digits))))
    return value
