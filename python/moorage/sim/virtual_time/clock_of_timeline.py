"""The clock of a replay of a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attempt_clock import AttemptClock
from .virtual_clock import VirtualClock

if TYPE_CHECKING:
    from moorage.sim.timeline import Timeline


def clock_of(timeline: Timeline, now: float = 0.0) -> VirtualClock:
    """Return a clock for a replay of a timeline: attempts take time where its events are operations.

    Parameters
    ----------
    now : float, optional
        Seconds since the start.
    """
    workload = timeline.workload
    return VirtualClock(now) if workload is None else AttemptClock(workload.rate, now)
