"""replay: a timeline goes in, a history comes out; conditions at which it stops."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any

from msgspec import Struct

from moorage.answers.scheduler import Scheduler
from moorage.cluster.cluster_setup import check_names
from moorage.controllers import PodTimes
from moorage.engine.scheduler.place_group import ignored_groups
from moorage.errors import InputError
from moorage.kube import Namespace, Object, ObjectMeta
from moorage.kube.strict_documents import parse_duration

from ..autoscaler import autoscale
from ..timeline import Timeline
from .history import Checkpoints, History
from .recorder import SPILL_ROWS, Recorder
from .replayer import Replayer, VirtualClock

# ---- conditions --------------------------------------------------------------------------------------------

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


class Clauses(Struct, frozen=True):
    """Clauses that all have to hold."""

    text: str
    clauses: tuple[Clause, ...]

    def holds(self, replayer: Replayer) -> bool:
        """Whether all clauses hold now."""
        return all(clause.holds(replayer) for clause in self.clauses)

    def due(self, replayer: Replayer) -> float:
        """Return the next time at which a clause begins to hold by itself."""
        times = (clause.due(replayer) for clause in self.clauses)
        return min((time for time in times if time > replayer.clock.now), default=math.inf)


def parse_condition(text: str) -> Clauses:
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
    return Clauses(text, tuple([_clause(part) for part in parts]))


def _clause(text: str) -> Clause:
    if match := _PENDING.fullmatch(text):
        return _pending(_key(match[1]), parse_duration(match[2]))
    if match := _STATE.fullmatch(text):
        return _state(_key(match[1]), match[2] == "running")
    if match := _TIME.fullmatch(text):
        seconds = parse_duration(match[1])
        return Clause(lambda replayer: replayer.clock.now >= seconds, lambda replayer: seconds)
    if match := _COUNT.fullmatch(text):
        count, compare, number = match[1], _COMPARE[match[2]], int(match[3])
        return Clause(lambda replayer: compare(replayer.recorder.count(count), number))
    if match := _REQUESTED.fullmatch(text):
        resource, compare, percent = match[1], _COMPARE[match[2]], float(match[3])
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


# ---- replay timeline ---------------------------------------------------------------------------------------

ON_FAILURE = ("retry", "drop")


def replay(
    timeline: Timeline,
    *,
    until: str | float | None = None,
    on_failure: str = "retry",
    checkpoints: int = 16,
    spill_rows: int = SPILL_ROWS,
    **options: Any,
) -> History:
    """Replay a timeline in virtual time.

    All events of one instant are applied, then the scheduler tries the pods of its queue; decisions take no
    virtual time. A pod that fits nowhere is tried again as kube-scheduler does: after an event that may help
    it and its backoff, or after five minutes. Equal arguments give equal histories.

    The controllers of workloads are simulated (`Scheduler`). Pods of the timeline are written as they are:
    admission by limit ranges and quotas concerns the cluster at the start and objects that are applied.

    Parameters
    ----------
    until : str or float, optional
        A time (``3600``, ``1h``), or a condition (`parse_condition`), at which the replay stops. By default
        it ends with the last event, or up to ten minutes later while pods are backing off or rolled out.
    on_failure : {"retry", "drop"}
        What happens to a pod that fits nowhere: it waits, or it is deleted at once.
    checkpoints : int, optional
        The number of states that are kept for `History.at`, at most.
    spill_rows : int, optional
        Rows of each log that are kept in memory; the others are in a temporary file.
    **options : object
        Of `Scheduler`: ``config``, ``profiles``, ``feature_gates``, ``registry``, ``tie_break``, ``seed`` and
        the others but ``clock`` and ``wait``.

    Raises
    ------
    InputError
        An event cannot be applied, a condition or an option is wrong.
    PluginError
        A plugin has failed on every pod; it ends the replay after many failures.
    """
    if on_failure not in ON_FAILURE:
        raise InputError(f'must be retry or drop, not "{on_failure}"', path="on_failure")
    replayer = start(timeline, spill_rows, options)
    replayer.drops = on_failure == "drop"
    kept = Checkpoints(replayer, checkpoints)
    end, condition = _until(until)
    replayer.condition = condition
    replayer.advance(end, kept.keep)
    replayer.settle()
    replayer.recorder.spill()
    replayer.refuse_failing_plugins()
    return History(replayer, kept)


def start(timeline: Timeline, spill_rows: int, options: dict[str, Any]) -> Replayer:
    """Make the scheduler of a replay over the cluster at the start, and try the pods there.

    Parameters
    ----------
    options : dict
        Of `Scheduler`.
    """
    clock = VirtualClock()
    check_names(options, "a replay", signature(replay).parameters)
    scheduler = scheduler_at_start(timeline, clock, options)
    recorder = Recorder(timeline, spill_rows)
    read = (*timeline.cluster.others, *(obj for obj in timeline.arguments if isinstance(obj, Object)))
    recorder.counts.update(ignored_groups(scheduler.handle, read))
    replayer = Replayer(scheduler, clock, timeline, recorder)
    autoscale(replayer)
    replayer.try_all()
    return replayer


AT_ONCE = PodTimes(start=0, ready=0, stop=0)
"""How long pods of a timeline take by default: its events say when they are made and end."""


def scheduler_at_start(timeline: Timeline, clock: VirtualClock, options: dict[str, Any]) -> Scheduler:
    """Make a scheduler over the cluster at the start of a timeline, with the namespaces of all its objects.

    Parameters
    ----------
    options : dict
        Of `Scheduler`.

    Raises
    ------
    InputError
        An option is of the replay itself.
    """
    for name in ("clock", "wait"):
        if name in options:
            raise InputError("is virtual in a replay", path=name)
    options = {"pod_times": AT_ONCE} | options
    scheduler = Scheduler(timeline.cluster, clock=clock, **options)
    present = {namespace.name for namespace in timeline.cluster.namespaces}
    used = {obj.namespace for obj in timeline.arguments if isinstance(obj, Object)}
    missing = sorted(used - present - {""})
    scheduler.client.create_many([Namespace(metadata=ObjectMeta(name=name)) for name in missing])  # type: ignore[attr-defined]
    return scheduler


def _until(until: str | float | None) -> tuple[float, Clauses | None]:
    if until is None:
        return math.inf, None
    if isinstance(until, str):
        with suppress(InputError):
            return parse_duration(until), None
        return math.inf, parse_condition(until)
    if not until >= 0:
        raise InputError(f"must be a number of seconds of at least 0, not {until}", path="until")
    return float(until), None
