"""Durations as text: ``90``, ``5m``, ``1h30m``; and moments."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

from moorage.errors import InputError, shorten

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def parse_duration(value: str | float) -> float:
    """Return a duration in seconds.

    Parameters
    ----------
    value : str or float
        Seconds, or numbers with the units ``ms``, ``s``, ``m``, ``h`` and ``d`` in a row, as ``1h30m``.

    Raises
    ------
    InputError
        The text is no duration, or the number is negative or not finite.
    """
    if isinstance(value, str):
        text = value.strip()
        parts = _PART.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return float(sum(float(number) * _UNITS[unit] for number, unit in parts))
        if not _NUMBER.fullmatch(text):
            raise InputError(f'"{text[:40]}" is not a duration such as 90, 5m or 1h30m')
        value = float(text)
    if not 0 <= value < 1e12:
        raise InputError(f"must be between 0 and 1e12 seconds, not {value}")
    return float(value)


def parse_moment(text: str, path: str) -> float:
    """Return a time with its zone, like ``2026-06-01T12:00:00Z``, in seconds since 1970.

    Parameters
    ----------
    path : str
        The field or the argument, for errors.

    Raises
    ------
    InputError
        The text is none.
    """
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.timestamp()
    raise InputError(f'must be a time like 2026-06-01T12:00:00Z, not "{shorten(text, 60)}"', path=path)
