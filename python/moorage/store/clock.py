"""Time in the store: the default clock, and times as objects carry them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache


def epoch() -> float:
    """Stand still at 1970."""
    return 0.0


@lru_cache(16)
def timestamp(seconds: int) -> str:
    """A time, in seconds since 1970, as it stands in objects."""
    return _text(datetime.fromtimestamp(seconds, UTC))


def shifted(text: str, seconds: int) -> str:
    """A time as it stands in objects, so many seconds later."""
    return _text(datetime.fromisoformat(text).astimezone(UTC) + timedelta(seconds=seconds))


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
