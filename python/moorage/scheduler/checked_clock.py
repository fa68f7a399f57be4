"""The clock that a scheduler is given, which somebody else has written."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from moorage.errors import ClockError

MOST = 1e12  # seconds; far from where timers of the queue say never


def checked(clock: Callable[[], float]) -> Callable[[], float]:
    """The same clock; ClockError instead of what it raises, and for what is no time."""

    def now() -> float:
        try:
            seconds: Any = clock()
        except Exception as error:
            raise ClockError(f"clock raised {type(error).__name__}: {error}") from error
        if type(seconds) is float and -MOST <= seconds <= MOST:
            return seconds
        if not (issubclass(type(seconds), Real) and abs(seconds) <= MOST):
            raise ClockError(f"clock said {seconds!r}, which is no number of seconds up to {MOST:g}")
        return float(seconds)

    return now
