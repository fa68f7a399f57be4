"""replay: a timeline goes in, a history comes out."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from moorage.answers.scheduler import Scheduler
from moorage.controllers import PodTimes
from moorage.engine.scheduler.place_group import ignored_groups
from moorage.errors import InputError
from moorage.kube import Namespace, Object, ObjectMeta
from moorage.kube.strict_documents import parse_duration

from ..autoscaling.autoscaler import autoscale
from ..timeline import Timeline
from ..virtual_clock import VirtualClock
from .checkpoints import Checkpoints
from .conditions import Condition, parse_condition
from .history import History
from .history_log import SPILL_ROWS
from .recorder import Recorder
from .replayer import Replayer

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
    return History(replayer, kept)


def start(timeline: Timeline, spill_rows: int, options: dict[str, Any]) -> Replayer:
    """Make the scheduler of a replay over the cluster at the start, and try the pods there.

    Parameters
    ----------
    options : dict
        Of `Scheduler`.
    """
    clock = VirtualClock()
    scheduler = scheduler_at_start(timeline, clock, options)
    recorder = Recorder(timeline, spill_rows)
    read = (*timeline.cluster.others, *(one for one in timeline.arguments if isinstance(one, Object)))
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
    present = {one.name for one in timeline.cluster.namespaces}
    used = {one.namespace for one in timeline.arguments if isinstance(one, Object)}
    missing = sorted(used - present - {""})
    scheduler.client.create_many([Namespace(metadata=ObjectMeta(name=name)) for name in missing])  # type: ignore[attr-defined]
    return scheduler


def _until(until: str | float | None) -> tuple[float, Condition | None]:
    if until is None:
        return math.inf, None
    if isinstance(until, str):
        with suppress(InputError):
            return parse_duration(until), None
        return math.inf, parse_condition(until)
    if not until >= 0:
        raise InputError(f"must be a number of seconds of at least 0, not {until}", path="until")
    return float(until), None
