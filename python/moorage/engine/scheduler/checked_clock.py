"""Validation of the clock that a caller gives to a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from moorage.errors import ClockError

MOST = 1e12  # seconds; less than the time that means "never" to the timers of the queue


def checked(clock: Callable[[], float]) -> Callable[[], float]:
    """Wrap a clock so that every failure of it is a ClockError.

    Parameters
    ----------
    clock : callable
        Returns seconds.

    Returns
    -------
    callable
        Returns seconds between -1e12 and 1e12. Raises ClockError if the clock raises, or returns anything
        else.
    """

    def now() -> float:
        try:
            seconds: Any = clock()
        except Exception as error:
            raise ClockError(f"clock raised {type(error).__name__}: {error}") from error
        if type(seconds) is float and -MOST <= seconds <= MOST:
            return seconds
        if not (issubclass(type(seconds), Real) and abs(seconds) <= MOST):
            raise ClockError(f"clock must return a number of seconds up to {MOST:g}, not {seconds!r}")
        return float(seconds)

    return now
