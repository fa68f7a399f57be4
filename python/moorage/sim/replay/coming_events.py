"""The next events of a timeline, piece by piece, and its next pods, which the core reads together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.decide.batch_rows import BoundSink
from moorage._core.decide.pod_batch import Route
from moorage.engine.scheduler import ScheduleResult
from moorage.engine.scheduler.place import APART, LEDGER

from ..event_columns import Verb
from ..timeline import Timeline

if TYPE_CHECKING:
    from moorage._core.decide.pod_batch import PodBatch
    from moorage.engine.scheduler.scheduler_state import SchedulerState
    from moorage.kube import Pod


PIECE = 1 << 16
"""Events whose columns are Python lists at a time."""


def names_pod(subject: str) -> bool:
    """Whether a reference has the kind, the namespace and the name of a pod; others are looked up."""
    return subject.startswith("pod/") and subject.count("/") == 2


class EventCursor:
    """Reads a timeline by instant, piece by piece, from an event on and without the recorded bindings.

    Parameters
    ----------
    plain : (k,) bool array
        By argument, whether it is a pod that may be placed directly.
    at : int, optional
        Index of the first event.

    Attributes
    ----------
    time : float
        Of the next instant; infinite after the last.
    first, last : int
        Range of the events of the next instant, as indexes of the lists.
    is_direct : bool
        Whether all events of the next instant create plain pods or delete pods.
    """

    def __init__(self, timeline: Timeline, plain: npt.NDArray[np.bool_], at: int = 0) -> None:
        columns = timeline.columns()
        self._kept: npt.NDArray[np.int64] | None = None
        left_out = columns["verb"] == Verb.BIND
        if left_out.any():
            self._kept = np.flatnonzero(~left_out)
            columns = {name: column[self._kept] for name, column in columns.items()}
        self._columns = columns
        self._plain = np.append(plain, False)  # of argument -1
        self._is_pod = np.array([*map(names_pod, timeline.subjects)], np.bool_)
        self._end = len(columns["time"])
        self._piece = max(256, min(PIECE, self._end // 16))
        self._base, self._stop = at, at
        self.time = math.inf
        self._load()

    @property
    def at(self) -> int:
        """Index of the next event."""
        return self._base + self.first

    def index(self, at: int) -> int:
        """Return the index of an event of the piece in the timeline."""
        here = self._base + at
        return here if self._kept is None else int(self._kept[here])

    def is_at_boundary(self) -> bool:
        """Whether the next instant is the first of a piece: the moment to save memory and state."""
        return self.first == 0

    def _load(self) -> None:
        """Make lists of the next piece, which ends with an instant."""
        times, base = self._columns["time"], self._stop
        stop = min(base + self._piece, self._end)
        if stop < self._end:
            stop = int(np.searchsorted(times, times[stop - 1], "right"))
        self._base, self._stop = base, stop
        self.first = self.last = 0
        if base >= stop:
            self.time = math.inf
            return
        piece = slice(base, stop)
        verbs, subjects = self._columns["verb"][piece], self._columns["subject"][piece]
        arguments = self._columns["argument"][piece]
        created = (verbs == Verb.CREATE) & self._plain[arguments]
        direct = created | ((verbs == Verb.DELETE) & self._is_pod[subjects])
        starts = np.flatnonzero(np.diff(times[piece], prepend=-1.0))
        self._direct = np.logical_and.reduceat(direct, starts).tolist()
        self._times = times[piece][starts].tolist()
        self._starts = [*starts.tolist(), stop - base]
        self._piece_times = times[piece]
        self._created = np.flatnonzero(created)
        self._breaks = np.append(starts[~np.array(self._direct)], stop - base)
        self._instant = 0
        self.verbs, self.subjects, self.arguments = verbs.tolist(), subjects.tolist(), arguments.tolist()
        self.ordinals = self._columns["ordinal"][piece].tolist()
        self.time, self.is_direct, self.last = self._times[0], self._direct[0], self._starts[1]

    def creations(self, at: int, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the next events that create pods, up to the next instant that is not direct.

        Parameters
        ----------
        at : int
            Index of an event of a direct instant, in the lists.
        most : int
            Number of events, at most.

        Returns
        -------
        events : (n,) int array
            Indexes in the lists.
        times : (n,) float array
            Seconds.
        """
        first = self._created.searchsorted(at)
        events = self._created[first : first + most]
        events = events[: events.searchsorted(self._breaks[self._breaks.searchsorted(at)])]
        return events, self._piece_times[events]

    def advance(self) -> None:
        """Go on to the next instant."""
        at = self._instant = self._instant + 1
        if at == len(self._times):
            self._load()
            return
        self.time, self.is_direct = self._times[at], self._direct[at]
        self.first, self.last = self._starts[at], self._starts[at + 1]


AHEAD = 32
"""Pods that are made together."""

NOT_DIRECT = APART | int(Route.VOLUMES)
BOUND = BoundSink()


class PodsAhead:
    """The next pods that are created directly.

    They are read when the first is placed, and each is placed at its time. Neither the store nor the queue
    sees a pod before its node is known. For speed alone (`tests/house/special_paths.toml`).

    Parameters
    ----------
    pods : sequence of Pod
        In the order of their creation.
    first : int
        Number of the first in the recorder; the others follow.

    Attributes
    ----------
    used : int
        How many of them have been created.
    """

    __slots__ = ("_batch", "_context", "_result", "_rows", "first", "pods", "used")

    _result: ScheduleResult
    _rows: memoryview

    def __init__(self, context: SchedulerState, pods: Sequence[Pod], first: int) -> None:
        self.pods, self.first, self.used = pods, first, 0
        self._context = context
        self._batch: PodBatch | None = None

    def place(self, at: int, alone: bool) -> int:
        """Place a pod by the core, while no pod waits.

        Parameters
        ----------
        alone : bool
            Whether it is the only one of its instant: it is added to the cache then, else it is assumed.

        Returns
        -------
        int
            Row of its node; -1 where the core alone cannot place it, which has changed nothing.
        """
        context, batch = self._context, self._batch
        with context.cache.lock:
            if batch is None:
                batch = self._batch = context.batch_of(self.pods)
                self._result = ScheduleResult(context.cache.state, len(self.pods), batch)
                self._rows = self._result.rows.data
            route = batch.route(at)
            if route & NOT_DIRECT:
                return -1
            engine = context.engine_of_route(route)
            sink = BOUND if alone else LEDGER
            if engine.placer.place(batch, self._result, at, at + 1, sink, lambda at: None) == at:
                return -1
            engine.batching.scored = None
        return self._rows[at]
