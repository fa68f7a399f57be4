"""The clock of scheduler_perf: each attempt takes a constant time, and actions happen in between."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

FAR = 1 << 62


class AttemptClock:
    """Exact virtual time in seconds since the start of the workload; it begins at 0.

    Parameters
    ----------
    rate : Fraction
        Scheduling attempts per second.

    Attributes
    ----------
    now : float
        `exact`, rounded.
    """

    __slots__ = ("_events", "_per_attempt", "_per_second", "_sequence", "_ticks", "now", "rate")

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self._events: list[tuple[Fraction, int, Callable[[], None]]] = []
        self._sequence = 0
        self.set(0)

    def __call__(self) -> float:
        return self.now

    @property
    def exact(self) -> Fraction:
        """The time in seconds since the start."""
        return Fraction(self._ticks, self._per_second)

    def set(self, when: Fraction | float) -> None:
        """Set the time, in seconds since the start."""
        # A fraction is not added to for each attempt: its normalization costs more than the attempt's event.
        exact = Fraction(when)
        self._per_second = math.lcm(exact.denominator, self.rate.numerator)
        self._ticks = int(exact * self._per_second)
        self._per_attempt = self._per_second // self.rate.numerator * self.rate.denominator
        self.now = self._ticks / self._per_second

    def at(self, when: Fraction, action: Callable[[], None]) -> None:
        """Schedule an action; actions of equal time run in the order of the calls.

        Parameters
        ----------
        when : Fraction
            Seconds since the start.
        action : callable
            The action.
        """
        self._sequence += 1
        heapq.heappush(self._events, (when, self._sequence, action))

    def every(self, interval: Fraction, action: Callable[[], bool]) -> None:
        """Run an action periodically, the first time after one interval, until it returns False.

        Parameters
        ----------
        interval : Fraction
            Seconds.
        action : callable
            The action.
        """
        start, ticks = self.exact, 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            if action():
                self.at(start + (ticks + 1) * interval, tick)

        self.at(start + interval, tick)

    def attempted(self, count: int) -> None:
        """Advance the time by a number of attempts.

        Parameters
        ----------
        count : int
            Number of attempts.
        """
        self._ticks += count * self._per_attempt
        self.now = self._ticks / self._per_second

    def attempts_until(self, when: Fraction | float | None) -> int:
        """Return the number of attempts that begin before a time.

        Parameters
        ----------
        when : Fraction or float or None
            Seconds since the start, exact; None for no limit.

        Returns
        -------
        int
            At least 1 for a future time.
        """
        if when is None:
            return FAR
        ticks, per_second = when.as_integer_ratio()
        passed = self._ticks * per_second - ticks * self._per_second
        return -(passed // (self._per_attempt * per_second))

    def next_event(self) -> Fraction | None:
        """Return the time of the next event; None if there is none."""
        return self._events[0][0] if self._events else None

    def has_come(self, when: Fraction | float | None) -> bool:
        """Whether a time has come.

        Parameters
        ----------
        when : Fraction or float or None
            Seconds since the start, exact; None never comes.
        """
        if when is None:
            return False
        ticks, per_second = when.as_integer_ratio()
        return ticks * self._per_second <= self._ticks * per_second

    def run_due(self) -> None:
        """Run all actions that are due, in order."""
        while self.has_come(self.next_event()):
            heapq.heappop(self._events)[2]()
