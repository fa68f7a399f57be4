"""What may happen in a timeline."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from moorage.kube import Object


class Verb(IntEnum):
    """What an event does. Besides BIND and MEASURE, each is a change of `Scheduler` or a write to its store.

    A node joins with CREATE and leaves with LEAVE, which takes the pods on it with it. BIND records where
    another scheduler has put a pod: a replay decides itself, and compares (`moorage.sim.replay.verify`).
    MEASURE names a moment.
    """

    CREATE = 0
    DELETE = 1
    APPLY = 2
    PATCH = 3
    SCALE = 4
    LEAVE = 5
    DRAIN = 6
    CORDON = 7
    UNCORDON = 8
    TAINT = 9
    LABEL = 10
    MEASURE = 11
    BIND = 12


Argument = Object | dict[str, Any] | int | str | tuple[str, ...]
"""An object to create or apply, a merge patch, a number of replicas, the name of a node, taints or labels."""


class Event(NamedTuple):
    """One event of a timeline.

    Attributes
    ----------
    time : float
        Seconds since the start of the timeline.
    verb : Verb
    subject : str
        The object as ``kind/name`` or ``kind/namespace/name``; the nodes, by name or selector, of the verbs
        of nodes; the name of a measurement.
    argument : Object, dict, int, str, tuple of str, or None
        What the verb needs besides.
    """

    time: float
    verb: Verb
    subject: str
    argument: Argument | None = None
