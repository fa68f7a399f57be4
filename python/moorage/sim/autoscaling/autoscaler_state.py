"""What an autoscaler remembers from one scan to the next."""

from __future__ import annotations

import copy
import math

import msgspec

from moorage.autoscalers.cluster_autoscaler.flags import Memory


class Upcoming(msgspec.Struct):
    """A node that was requested and has not joined yet: when it joins, its group and its name."""

    time: float
    group: str
    name: str


class AutoscalerState(msgspec.Struct):
    """What is remembered.

    Attributes
    ----------
    upcoming : list of Upcoming
    memory : Memory
        What cluster-autoscaler remembers.
    due, delayed : list of float
        When system pods that keep their nodes may go, and when pods are old enough to be helped.
    changed : float
        When a scan last found a change.
    serials : dict of str to int
        Number of the last node of each group.
    tick : int
        Number of the last scan.
    mark : tuple of int
        State of the cluster after the last scan that changed nothing.
    """

    upcoming: list[Upcoming] = []
    memory: Memory = msgspec.field(default_factory=Memory)
    due: list[float] = []
    delayed: list[float] = []
    changed: float = -math.inf
    serials: dict[str, int] = {}
    tick: int = -1
    mark: tuple[int, ...] = ()

    def copy(self) -> AutoscalerState:
        """Return an independent copy."""
        return copy.deepcopy(self)
