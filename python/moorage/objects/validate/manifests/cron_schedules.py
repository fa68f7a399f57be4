"""The schedules of CronJobs: the grammar of robfig/cron v3 (ParseStandard), with its texts."""

from __future__ import annotations

import re
from typing import NamedTuple

from moorage.go_texts import parse_duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly")
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


def schedule_error(schedule: str) -> str:
    """Return what is wrong with a schedule, "" if nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    try:
        _parse(schedule)
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


def _parse(schedule: str) -> None:
    if schedule.startswith("@"):
        if schedule.startswith(_EVERY):
            try:
                parse_duration(schedule.removeprefix(_EVERY))
            except ValueError as error:
                raise ValueError(f"failed to parse duration {schedule}: {error}") from None
        elif schedule[1:] not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {schedule}")
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = f"[{' '.join(fields)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: {shown}")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _parse_range(part, bounds)


def _parse_range(text: str, bounds: _Bounds) -> None:
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
