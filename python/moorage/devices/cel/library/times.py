"""Timestamps and durations of CEL."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from moorage.devices.cel.cel_errors import EvaluationError
from moorage.devices.cel.cel_types import DURATION, INT, STRING, TIMESTAMP
from moorage.devices.cel.overloads import Library
from moorage.devices.cel.values import INT_MAX, INT_MIN, Duration, Timestamp
from moorage.framework.configuration.durations import parse_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800 * 10**9, 253402300799 * 10**9 + 999999999
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_SECOND = 10**9


def timestamp_from_text(text: str) -> Timestamp:
    """Read a timestamp of RFC 3339.

    Parameters
    ----------
    text : str

    Returns
    -------
    Timestamp

    Raises
    ------
    EvaluationError
        The text is none.
    """
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        whole = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        seconds = (whole - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    return _in_range(seconds * _SECOND + int(((match[2] or "") + "0" * 9)[:9]))


def duration_from_text(text: str) -> Duration:
    """Read a duration in Go's notation.

    Parameters
    ----------
    text : str

    Returns
    -------
    Duration

    Raises
    ------
    EvaluationError
        The text is none.
    """
    try:
        return Duration(parse_duration(text))
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'") from None


def _in_range(nanoseconds: int) -> Timestamp:
    if _FIRST <= nanoseconds <= _LAST:
        return Timestamp(nanoseconds)
    raise EvaluationError("timestamp overflow")


def add_to_timestamp(time: Timestamp, duration: Duration) -> Timestamp:
    """Return the timestamp a duration later."""
    return _in_range(time.nanoseconds + duration.nanoseconds)


def _duration(nanoseconds: int) -> Duration:
    if INT_MIN <= nanoseconds <= INT_MAX:
        return Duration(nanoseconds)
    raise EvaluationError("integer overflow")


def add_durations(one: Duration, other: Duration) -> Duration:
    """Return the sum of two durations."""
    return _duration(one.nanoseconds + other.nanoseconds)


def subtract_timestamps(one: Timestamp, other: Timestamp) -> Duration:
    """Return the duration between two timestamps."""
    return _duration(one.nanoseconds - other.nanoseconds)


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""


def timestamp_text(time: Timestamp) -> str:
    """Return a timestamp in the format of RFC 3339."""
    seconds, rest = divmod(time.nanoseconds, _SECOND)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}{_fraction(rest)}Z"


def duration_text(duration: Duration) -> str:
    """Return a duration in seconds, such as ``5400s``."""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    return f"{'-' * (duration.nanoseconds < 0)}{seconds}{_fraction(rest)}s"


def _at(time: Timestamp, zone: str = "UTC") -> datetime:
    return (_EPOCH + timedelta(microseconds=time.nanoseconds // 1000)).astimezone(_zone(zone))


def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo  # reads the build's variables: not when moorage is imported

    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


_OF_TIMESTAMPS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_OF_DURATIONS = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}


def add_time_functions(library: Library) -> None:
    """Add the getters of timestamps and durations.

    Parameters
    ----------
    library : Library
    """
    for name, read in _OF_TIMESTAMPS.items():
        library.member(name, [TIMESTAMP], INT, lambda time, read=read: read(_at(time)))
        library.member(name, [TIMESTAMP, STRING], INT, lambda time, zone, read=read: read(_at(time, zone)))
    for name, unit in _OF_DURATIONS.items():
        library.member(name, [DURATION], INT, lambda duration, unit=unit: _units(duration, unit))


def _units(duration: Duration, unit: int) -> int:
    whole = abs(duration.nanoseconds) // unit
    return -whole if duration.nanoseconds < 0 else whole
