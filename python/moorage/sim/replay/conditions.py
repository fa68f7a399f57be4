"""Conditions at which a replay stops."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from moorage.errors import InputError
from moorage.kube.strict_documents import parse_duration

if TYPE_CHECKING:
    from .replayer import Replayer

GRAMMAR = """condition = clause { " and " clause }
clause    = "pod " NAME " pending " (">" | ">=") DURATION
          | "pod " NAME (" running" | " gone")
          | "time >= " DURATION
          | ("pending" | "running" | "evicted") COMPARISON NUMBER
          | "requested " RESOURCE COMPARISON NUMBER "%"
"""
"""NAME is a pod, in the namespace default or as NAMESPACE/NAME; COMPARISON one of > >= < <=. A duration is
exceeded as soon as it has passed, so > and >= are alike for it."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_PENDING = re.compile(r"pod (\S+) pending >=? ?(\S+)")
_STATE = re.compile(r"pod (\S+) (running|gone)")
_TIME = re.compile(r"time >=? ?(\S+)")
_COUNT = re.compile(r"(pending|running|evicted) ?(>=|<=|>|<) ?(\d+)")
_REQUESTED = re.compile(r"requested (\S+) ?(>=|<=|>|<) ?(\d+(?:\.\d+)?) ?%")


class Clause(Struct, frozen=True):
    """A part of a condition.

    Attributes
    ----------
    holds : callable
        Whether it holds in the present state of a replayer.
    due : callable
        The time at which it will hold if nothing else happens; infinite if never.
    """

    holds: Callable[[Replayer], bool]
    due: Callable[[Replayer], float] = lambda replayer: math.inf


class Condition(Struct, frozen=True):
    """Clauses that all have to hold.

    Attributes
    ----------
    text : str
    clauses : tuple of Clause
    """

    text: str
    clauses: tuple[Clause, ...]

    def holds(self, replayer: Replayer) -> bool:
        """Whether all clauses hold now."""
        return all(clause.holds(replayer) for clause in self.clauses)

    def due(self, replayer: Replayer) -> float:
        """Return the next time at which a clause begins to hold by itself.

        Returns
        -------
        float
            Later than now.
        """
        times = (clause.due(replayer) for clause in self.clauses)
        return min((time for time in times if time > replayer.clock.now), default=math.inf)


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Parameters
    ----------
    text : str
        As ``pod default/web-1 pending > 5m``; see `GRAMMAR`.

    Raises
    ------
    InputError
        The text is no condition.
    """
    parts = re.split(r"\s+and\s+", " ".join(text.split()))
    return Condition(text, tuple([_clause(part) for part in parts]))


def _clause(text: str) -> Clause:
    if found := _PENDING.fullmatch(text):
        return _pending(_key(found[1]), parse_duration(found[2]))
    if found := _STATE.fullmatch(text):
        return _state(_key(found[1]), found[2] == "running")
    if found := _TIME.fullmatch(text):
        seconds = parse_duration(found[1])
        return Clause(lambda replayer: replayer.clock.now >= seconds, lambda replayer: seconds)
    if found := _COUNT.fullmatch(text):
        count, compare, number = found[1], _COMPARE[found[2]], int(found[3])
        return Clause(lambda replayer: compare(replayer.recorder.count(count), number))
    if found := _REQUESTED.fullmatch(text):
        resource, compare, percent = found[1], _COMPARE[found[2]], float(found[3])
        return Clause(lambda replayer: compare(requested_percent(replayer, resource), percent))
    raise InputError(
        f'"{text}" is not a condition such as "pod x pending > 5m" or "pending > 10"', path="until"
    )


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _pending(key: str, seconds: float) -> Clause:
    def due(replayer: Replayer) -> float:
        since = replayer.recorder.pending.get(key)
        return math.inf if since is None else since + seconds

    return Clause(lambda replayer: due(replayer) <= replayer.clock.now, due)


def _state(key: str, is_running: bool) -> Clause:
    was_there = False

    def holds(replayer: Replayer) -> bool:
        nonlocal was_there
        recorder = replayer.recorder
        is_there = key in recorder.live
        was_there = was_there or is_there
        if is_running:
            return is_there and key not in recorder.pending
        return was_there and not is_there

    return Clause(holds)


def requested_percent(replayer: Replayer, resource: str) -> float:
    """Return how much of a resource the pods on nodes request, in percent of what is allocatable.

    Returns
    -------
    float
        0 where no node has the resource.
    """
    table = replayer.scheduler.table
    if resource not in table.allocatable:
        return 0.0
    rows = replayer.scheduler.context.view_rows()
    allocatable = int(table.allocatable[resource][rows].sum())
    return 100.0 * int(table.requested[resource][rows].sum()) / allocatable if allocatable else 0.0
