"""The clock of a replay."""

from __future__ import annotations


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

    def set(self, when: float) -> None:
        """Set the time, in seconds since the start."""
        self.now = when
