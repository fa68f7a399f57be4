"""Times of a cron schedule, in UTC, as github.com/robfig/cron/v3 reads them (ParseStandard)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from typing import NamedTuple

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, Sequence[str]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


class _Field(NamedTuple):
    values: frozenset[int]
    is_any: bool


@lru_cache(256)
def _parsed(schedule: str) -> tuple[_Field, ...]:
    parts = _NAMED.get(schedule, schedule).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}")
    return tuple(_field(part, *bounds) for part, bounds in zip(parts, _FIELDS, strict=True))


def _field(text: str, low: int, high: int, names: Sequence[str]) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = _number(step_text, 1, ()) if step_text or "/" in part else 1
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            start, end = low, high
            is_any = is_any or step == 1
        else:
            start = _number(first, low, names)
            end = _number(last, low, names) if dash else high if "/" in part else start
        if not low <= start <= end <= high or step < 1:
            raise ValueError(f"not within {low} and {high}: {part}")
        values.update(range(start, end + 1, step))
    return _Field(frozenset(values), is_any)


def _number(text: str, low: int, names: Sequence[str]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"no number: {text}")
    return int(text)


def next_hit(schedule: str, after: float, until: float) -> float:
    """The first time of a schedule after one and until another moment (seconds since 1970); infinite if there
    is none.

    Raises
    ------
    ValueError
        The schedule is malformed.
    """
    minutes, hours, days, months, weekdays = _parsed(schedule)
    first = int(after) // 60 * 60 + 60
    last = int(until) // 60 * 60
    day = datetime.fromtimestamp(first, UTC).replace(hour=0, minute=0)
    while day.timestamp() <= last:
        in_month, in_week = day.day in days.values, day.isoweekday() % 7 in weekdays.values
        both = in_month and in_week if days.is_any or weekdays.is_any else in_month or in_week
        if both and day.month in months.values:
            start = int(day.timestamp())
            times = (start + hour * 3600 + minute * 60 for hour in hours.values for minute in minutes.values)
            if hits := [time for time in times if first <= time <= last]:
                return float(min(hits))
        day += timedelta(days=1)
    return inf
