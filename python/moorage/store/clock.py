"""The store's default clock, and times in the format of object fields (RFC 3339, UTC)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np
import numpy.typing as npt


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
    seconds : int
        May be negative.

    Returns
    -------
    str
        In the format of `timestamp`.
    """
    return _text(datetime.fromisoformat(text).astimezone(UTC) + timedelta(seconds=seconds))


def _text(time: datetime) -> str:
    """Format a UTC time for a field of an object."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
