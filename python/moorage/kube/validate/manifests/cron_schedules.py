"""Schedules of CronJobs and budgets: the grammar of robfig/cron v3 (ParseStandard), with its texts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from moorage.kube.go_texts import parse_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_ZONE_PART = re.compile(r"(?!-|\.\.?$)[A-Za-z.\-_0-9+ ]{1,14}")
_MOST_DIGITS = 18


class _Bounds(NamedTuple):
    """The least and the greatest number of a field, and names of its numbers from the least one on."""

    least: int
    greatest: int
    names: tuple[str, ...] = ()


_FIELDS = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))
"""Minute, hour, day of the month, month, and day of the week."""


class CronField(NamedTuple):
    """The numbers of a field, and whether a star stands for them."""

    values: frozenset[int]
    is_any: bool


def schedule_error(schedule: str) -> str:
    """Return what is wrong with a schedule, "" if nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    try:
        parse_schedule(schedule)
    except ValueError as error:
        return str(error)
    return ""


def zone_error(name: str) -> str:
    """Return what is wrong with a time zone, "" if nothing is.

    Where this machine has no database of time zones, all names of a right form pass.
    """
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.casefold() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    if not all(map(_ZONE_PART.fullmatch, name.split("/"))):
        return f"unknown time zone {name}"
    return "" if _is_zone(name) or not _is_zone("Europe/Berlin") else f"unknown time zone {name}"


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # few CronJobs name a zone

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@lru_cache(256)
def parse_schedule(schedule: str) -> tuple[CronField, ...]:
    """Return the five fields of a schedule; none for ``@every``, whose times are counted from its begin.

    Raises
    ------
    ValueError
        It is malformed.
    """
    if schedule.startswith(_EVERY):
        try:
            parse_duration(schedule.removeprefix(_EVERY))
        except ValueError as error:
            raise ValueError(f"failed to parse duration {schedule}: {error}") from None
        return ()
    if schedule.startswith("@") and schedule not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {schedule}")
    texts = _DESCRIPTORS.get(schedule, schedule).split()
    if len(texts) != len(_FIELDS):
        shown = f"[{' '.join(texts)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(texts)}: {shown}")
    fields = []
    for text, bounds in zip(texts, _FIELDS, strict=True):
        parts = [_parse_range(part, bounds) for part in text.split(",") if part]
        fields.append(
            CronField(frozenset().union(*(one.values for one in parts)), any(one.is_any for one in parts))
        )
    return tuple(fields)


def _parse_range(text: str, bounds: _Bounds) -> CronField:
    """Parse ``*``, ``1``, ``1-5``, each with ``/2`` or without."""
    ends, *steps = text.split("/")
    first, *rest = ends.split("-")
    start, end = bounds[:2]
    if first not in ("*", "?"):
        start = end = _number(first, bounds)
        if len(rest) > 1:
            raise ValueError(f"too many hyphens: {text}")
        if rest:
            end = _number(rest[0], bounds)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and not rest:
        end = bounds.greatest
    if start < bounds.least:
        raise ValueError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.greatest:
        raise ValueError(f"end of range ({end}) above maximum ({bounds.greatest}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return CronField(frozenset(range(start, end + 1, step)), first in ("*", "?") and step == 1)


def _number(text: str, bounds: _Bounds) -> int:
    if (name := text.lower()) in bounds.names:
        return bounds.least + bounds.names.index(name)
    return _integer(text)


def _integer(text: str) -> int:
    """Parse a number as strconv.Atoi does; a minus sign has no place here."""
    if re.fullmatch(r"\+?[0-9]+", text) is None:
        why = "invalid syntax"
    elif len(text.lstrip("+0")) > _MOST_DIGITS:
        why = "value out of range"
    else:
        return int(text)
    raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {why}')
