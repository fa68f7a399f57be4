"""Timestamps and durations of CEL."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ..go_texts import parse_duration
from .cel_errors import EvaluationError
from .type_checker import Library
from .values import DURATION, INT, INT_MAX, INT_MIN, STRING, TIMESTAMP, Duration, Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800 * 10**9, 253402300799 * 10**9 + 999999999
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_SECOND = 10**9
_YEAR, _CYCLE = 366 * 86400 * _SECOND, 146097 * 86400 * _SECOND


def timestamp_from_text(text: str) -> Timestamp:
    """Read a timestamp of RFC 3339.

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

    Raises
    ------
    EvaluationError
        The text is none.
    """
    try:
        return Duration(parse_duration(text))
    except ValueError:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'") from None


def to_timestamp(value: object) -> Timestamp:
    """Return the timestamp of a timestamp, a text, or seconds since 1970.

    Raises
    ------
    EvaluationError
        There is none.
    """
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, str):
        return timestamp_from_text(value)
    if type(value) is int:
        return _in_range(value * _SECOND)
    raise EvaluationError("type conversion error to 'google.protobuf.Timestamp'")


def to_duration(value: object) -> Duration:
    """Return the duration of a duration or text. An int has none, though upstream declares the overload.

    Raises
    ------
    EvaluationError
        There is none.
    """
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return duration_from_text(value)
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


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


def add_durations(first: Duration, other: Duration) -> Duration:
    """Return the sum of two durations."""
    return _duration(first.nanoseconds + other.nanoseconds)


def subtract_timestamps(first: Timestamp, other: Timestamp) -> Duration:
    """Return the duration between two timestamps."""
    return _duration(first.nanoseconds - other.nanoseconds)


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""


def timestamp_text(time: Timestamp) -> str:
    """Return a timestamp in the format of RFC 3339."""
    seconds, rest = divmod(time.nanoseconds, _SECOND)
    whole = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    return f"{whole.isoformat()}{_fraction(rest)}Z"


def duration_text(duration: Duration) -> str:
    """Return a duration in seconds, such as ``5400s``."""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    return f"{'-' * (duration.nanoseconds < 0)}{seconds}{_fraction(rest)}s"


def _at(time: Timestamp, zone: str = "UTC") -> tuple[datetime, int]:
    """A time in a zone, in one of the years 1 to 400, and the cycles of 400 years before it."""
    local = time.nanoseconds + _offset(time, zone) * _SECOND - _FIRST
    cycles, rest = divmod(local, _CYCLE)
    return datetime.min + timedelta(microseconds=rest // 1000), cycles


def _offset(time: Timestamp, zone: str) -> int:
    """Seconds by which a zone is ahead of UTC."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        hour, minute = _number(hours), _number(minutes)
        return 60 * (60 * hour + (-minute if zone[0] == "-" else minute))
    if zone in ("", "UTC", "Local"):
        return 0
    if ".." in zone or zone[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    from zoneinfo import ZoneInfo  # reads the build's variables: not when moorage is imported

    try:
        zone_info = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    seconds = min(max(time.nanoseconds, _FIRST + _YEAR), _LAST - _YEAR) // _SECOND
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone_info).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _number(digits: str) -> int:
    if not _INTEGER.fullmatch(digits):
        raise EvaluationError(f'strconv.Atoi: parsing "{digits}": invalid syntax')
    return int(digits)


_OF_TIMESTAMPS: dict[str, Callable[[datetime, int], int]] = {
    "getFullYear": lambda at, cycles: at.year + 400 * cycles,
    "getMonth": lambda at, _: at.month - 1,
    "getDate": lambda at, _: at.day,
    "getDayOfMonth": lambda at, _: at.day - 1,
    "getDayOfWeek": lambda at, _: at.isoweekday() % 7,
    "getDayOfYear": lambda at, _: at.timetuple().tm_yday - 1,
    "getHours": lambda at, _: at.hour,
    "getMinutes": lambda at, _: at.minute,
    "getSeconds": lambda at, _: at.second,
    "getMilliseconds": lambda at, _: at.microsecond // 1000,
}
_OF_DURATIONS = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}


def add_time_functions(library: Library) -> None:
    """Add the getters of timestamps and durations."""
    for name, read in _OF_TIMESTAMPS.items():
        library.member(name, [TIMESTAMP], INT, lambda time, read=read: read(*_at(time)))
        library.member(name, [TIMESTAMP, STRING], INT, lambda time, zone, read=read: read(*_at(time, zone)))
    for name, unit in _OF_DURATIONS.items():
        library.member(name, [DURATION], INT, lambda duration, unit=unit: _units(duration, unit))


def _units(duration: Duration, unit: int) -> int:
    whole = abs(duration.nanoseconds) // unit
    return -whole if duration.nanoseconds < 0 else whole
