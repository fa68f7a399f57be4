"""Texts as Go reads and writes them: JSON, quoted strings, and durations in nanoseconds."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_ESCAPES = dict(zip('\a\b\f\n\r\t\v\\"', ("\\" + letter for letter in 'abfnrtv\\"'), strict=True))
_HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
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


def go_json(value: Any) -> str:
    """A JSON value as Go's encoder writes it: without spaces, and with <, > and & escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


def quote(text: str) -> str:
    """Quote a string as Go's ``%q``."""
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(1024)
def parse_duration(text: str) -> int:
    """Parse a duration (Go's ``time.ParseDuration``).

    Parameters
    ----------
    text : str
        The duration, for example ``1h30m``.

    Returns
    -------
    int
        Nanoseconds.

    Raises
    ------
    ValueError
        The text is malformed; the message is Go's.
    """
    shown = _in_bytes(text)
    invalid = ValueError(f"time: invalid duration {shown}")
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
            raise ValueError(f"time: missing unit in duration {shown}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_in_bytes(unit)} in duration {shown}")
        total += _nanoseconds(match[1] or "0", match[2] or "", _UNITS[unit])
        if total > _LIMIT:
            raise invalid
        rest = rest[match.end() :]
    if total == _LIMIT and not negative:
        raise invalid
    return -total if negative else total


def _in_bytes(text: str) -> str:
    """Quote a string as Go's ``time`` does: what is no printable ASCII is shown byte by byte."""
    return f'"{"".join(map(_shown, text.encode()))}"'


def _shown(byte: int) -> str:
    if byte < 0x20 or byte >= 0x80:
        return f"\\x{byte:02x}"
    return f"\\{chr(byte)}" if chr(byte) in '"\\' else chr(byte)


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    """Convert to nanoseconds as Go does, with an integer whole part and a fraction in float64.

    Digits beyond 2⁶³ are dropped.
    """
    value = int(whole[:40]) * unit
    digits = fraction
    while digits and int(digits) >= _LIMIT:
        digits = digits[:-1]
    if digits and int(digits):
        value += int(float(int(digits)) * (float(unit) / float(10 ** len(digits))))
    return value


UNITS = ((10**6, "ms"), (10**3, "µs"), (1, "ns"))


def format_duration(seconds: float) -> str:
    """Format a duration as Go's ``time.Duration``: ``15m0s``, ``1.5s``, ``100ms``, ``0s``, ``-2s``.

    Parameters
    ----------
    seconds : float
        Rounded to nanoseconds; limited to ±2⁶³ nanoseconds, the range of Go.
    """
    limited = max(-_LIMIT, min(_LIMIT - 1, seconds * 1e9))
    return format_nanoseconds(round(limited))


def format_nanoseconds(nanoseconds: int) -> str:
    """Format nanoseconds as Go's ``time.Duration``; see `format_duration`."""
    sign, left = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if left == 0:
        return "0s"
    if left < 10**9:
        unit, suffix = next(pair for pair in UNITS if left >= pair[0])
        return sign + _decimal(left, unit) + suffix
    minutes, left = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{whole}{_decimal(left, 10**9)}s"


def _decimal(amount: int, unit: int) -> str:
    """Format `amount` in units of `unit`, a power of ten, without trailing zeros."""
    whole, rest = divmod(amount, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)


# ---- times -------------------------------------------------------------------------------------------------
# In the format of object fields (RFC 3339, UTC).


def epoch() -> float:
    """Return 0.0: a clock that stands still at the beginning of 1970."""
    return 0.0


@lru_cache(16)
def timestamp(seconds: int) -> str:
    """Format a time for a field of an object.

    Parameters
    ----------
    seconds : int
        Seconds since 1970.

    Returns
    -------
    str
        Such as ``2026-01-31T12:00:00Z``.
    """
    return _text(datetime.fromtimestamp(seconds, UTC))


def timestamps(seconds: npt.NDArray[np.int64]) -> list[str]:
    """Format times for fields of objects, as `timestamp` does.

    Parameters
    ----------
    seconds : (n,) int64 array
        Seconds since 1970.
    """
    texts: list[str] = np.datetime_as_string(seconds.astype("M8[s]"), timezone="UTC").tolist()
    return texts


def shifted(text: str, seconds: int) -> str:
    """Shift a time by some seconds.

    Parameters
    ----------
    text : str
        A time in ISO 8601.

    Returns
    -------
    str
        In the format of `timestamp`.
    """
    return _text(datetime.fromisoformat(text).astimezone(UTC) + timedelta(seconds=seconds))


def _text(time: datetime) -> str:
    """Format a UTC time for a field of an object."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
