"""The clock of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


class VirtualClock:
    """A clock that stands still until somebody sets it; attempts to schedule take no time.

    Parameters
    ----------
    now : float, optional
        Seconds since the start of the timeline.

    Attributes
    ----------
    now : float
    """

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def set(self, when: float | Fraction) -> None:
        """Set the time.

        Parameters
        ----------
        when : float or Fraction
            Seconds since the start.
        """
        self.now = float(when)

    def after(self, counts: Sequence[int]) -> list[float]:
        """Return the times after some numbers of further attempts, in seconds."""
        return [self.now] * len(counts)

    def attempted(self, count: int) -> None:
        """Let the time of a number of attempts pass: none."""
