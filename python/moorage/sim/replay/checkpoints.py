"""Checkpoints: states of a replay from which it can be repeated."""

from __future__ import annotations

from typing import NamedTuple

from moorage.answers.scheduler import Scheduler

from ..autoscaling.autoscaler_state import AutoscalerState
from ..autoscaling.karpenter_state import KarpenterState
from ..virtual_clock import VirtualClock
from .replayer import Replayer


class Checkpoint(NamedTuple):
    """A fork of the scheduler, the time, the index of the next event and the number of the next pod, and what
    the autoscaler remembers."""

    time: float
    at: int
    pods: int
    scheduler: Scheduler
    scaled: AutoscalerState | KarpenterState | None


class Checkpoints:
    """A limited number of checkpoints, evenly distributed over the events.

    Parameters
    ----------
    most : int
        How many; with 0 only the beginning is kept.
    """

    def __init__(self, replayer: Replayer, most: int) -> None:
        self._replayer, self._most = replayer, most
        self._calls, self._every = 0, 1
        self._kept: list[Checkpoint] = []
        self._add()

    def keep(self) -> None:
        """Keep the state between two instants, unless enough others are kept. Where there are too many, every
        second is dropped, and from then on only every second call adds one."""
        self._replayer.settle()
        self._replayer.recorder.spill()
        self._calls += 1
        if self._most and self._calls % self._every == 0:
            self._add()
            if len(self._kept) > self._most:
                del self._kept[1::2]
                self._every *= 2

    def _add(self) -> None:
        replayer = self._replayer
        now = replayer.clock.now
        fork = replayer.scheduler.fork(VirtualClock(now))
        scaled = None if replayer.autoscaler is None else replayer.autoscaler.state.copy()
        self._kept.append(Checkpoint(now, replayer.cursor.at, replayer.recorder.next_pod, fork, scaled))

    def before(self, time: float) -> Checkpoint:
        """Return the last checkpoint at or before a time."""
        return next((one for one in reversed(self._kept) if one.time <= time), self._kept[0])
