"""Virtual time: each scheduling attempt takes the same time, and what is due happens in between."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

FAR = 1 << 62


class VirtualTime:
    """Seconds since the workload began, exact.

    Parameters
    ----------
    rate : Fraction
        Scheduling attempts per second.
    """

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self.now = Fraction(0)
        self._events: list[tuple[Fraction, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, when: Fraction, action: Callable[[], None]) -> None:
        """Do this then; of several at one time, the first that was asked for comes first."""
        self._sequence += 1
        heapq.heappush(self._events, (when, self._sequence, action))

    def every(self, interval: Fraction, action: Callable[[], bool]) -> None:
        """Do this every `interval` seconds from now on, the first time after one interval, until it answers
        False."""
        start, ticks = self.now, 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            if action():
                self.at(start + (ticks + 1) * interval, tick)

        self.at(start + interval, tick)

    def attempted(self, count: int) -> None:
        """That many attempts were made."""
        self.now += count / self.rate

    def attempts_until(self, when: Fraction | None) -> int:
        """How many attempts begin before this time; at least 1 while it is to come."""
        return FAR if when is None else math.ceil((when - self.now) * self.rate)

    def next_event(self) -> Fraction | None:
        """When the next event is due; None where nothing is to come."""
        return self._events[0][0] if self._events else None

    def run_due(self) -> None:
        """Do everything that is due by now, in order."""
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
