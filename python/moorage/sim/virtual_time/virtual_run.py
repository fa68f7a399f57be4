"""VirtualRun: the loop that takes a scheduler through a timeline in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from moorage._core.queue.in_flight import keys_of
from moorage.scheduler.runs import ALL, Run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from moorage.facade import Scheduler
    from moorage.queue import QueuedPodInfo
    from moorage.scheduler import Failure
    from moorage.scheduler.cycle.results import Eviction

    from .virtual_clock import VirtualClock


class Cursor(Protocol):
    """What comes next in a timeline.

    Attributes
    ----------
    time : float or Fraction
        Seconds at which it happens; infinite at the end.
    at : int
        Index of the next event.
    """

    @property
    def time(self) -> float | Fraction: ...

    @property
    def at(self) -> int: ...

    def is_at_boundary(self) -> bool:
        """Whether this is a moment to save memory and state."""
        ...


class StopCondition(Protocol):
    """What ends a run: a `Condition` of its state."""

    def holds(self, run: Any, /) -> bool:
        """Whether it holds now."""
        ...

    def due(self, run: Any, /) -> float:
        """Return the next time at which a part of it begins to hold by itself."""
        ...


class Noting(Cursor, Protocol):
    """A cursor that is told what became of pods."""

    def note_placements(self, keys: Sequence[str], nodes: Sequence[str], /) -> None: ...

    def note_failures(self, keys: Sequence[str], failures: Sequence[Failure], /) -> None: ...

    def note_evictions(self, keys: Collection[str], /) -> None: ...


class Scaler(Protocol):
    """What adds and removes nodes: an `Autoscaler`.

    Attributes
    ----------
    state : AutoscalerState
        With which another one can go on.
    """

    state: Any

    def next_time(self) -> float: ...

    def act(self) -> None: ...


class VirtualRun(Run):
    """A run in virtual time: what is due at a moment happens, pods are tried, and time goes on to the next.

    Parameters
    ----------
    scheduler : Scheduler
        With the clock, over a store of its own.

    Attributes
    ----------
    cursor : Cursor
    condition : StopCondition or None
        At which `advance` stops.
    autoscaler : Scaler or None
    operations : Noting or None
        The operations of scheduler_perf, which are the cursor where there are some.
    until : float
        The time up to which `advance` goes.
    """

    defers_failed_groups = False  # backoff limits the attempts, because virtual time passes
    scheduler: Scheduler
    cursor: Cursor
    condition: StopCondition | None = None
    autoscaler: Scaler | None = None
    operations: Noting | None = None

    def __init__(self, scheduler: Scheduler, clock: VirtualClock) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.until = math.inf
        self._idle = True  # whether nothing happens before the next event
        self._decisions = 0  # that were noted of the batch
        self._decided = 0.0  # when the last of them was taken

    # ---- the loop ------------------------------------------------------------------------------------------

    def advance(self, until: float = math.inf, boundary: Callable[[], None] | None = None) -> None:
        """Apply the events up to a time, that one included, and try pods, until the condition holds.

        Parameters
        ----------
        until : float, optional
            Seconds; by default the run ends with the timeline, or up to ten minutes later if pods are
            backing off.
        boundary : callable, optional
            Called between two instants after some thousand events each.
        """
        cursor: Cursor = self.cursor if self.operations is None else self.operations
        clock, condition, autoscaler = self.clock, self.condition, self.autoscaler
        self.until = until
        while condition is None or not condition.holds(self):
            due = cursor.time
            now: float | Fraction = due if self._idle else min(due, self.next_timer())
            if autoscaler is not None:
                now = min(now, autoscaler.next_time())
            if condition is not None:
                now = min(now, condition.due(self))
            if now == math.inf or float(now) > until:
                return
            clock.set(now)
            self.happen(due == now)
            if autoscaler is not None and autoscaler.next_time() <= now:
                autoscaler.act()
            if boundary is not None and due == now and cursor.is_at_boundary():
                boundary()

    def next_timer(self) -> float:
        """Return when the queue, a binding cycle or a controller goes on without an event."""
        raise NotImplementedError

    def happen(self, is_due: bool) -> None:
        """Do what happens now, and try pods.

        Parameters
        ----------
        is_due : bool
            Whether the next events of the cursor happen now.
        """
        raise NotImplementedError

    # ---- batches -------------------------------------------------------------------------------------------

    def try_batch(self, limit: int = ALL) -> bool:
        """Pop pods, try and bind them. The time of the attempts passes.

        Parameters
        ----------
        limit : int
            Number of pods without a group, at most.

        Returns
        -------
        bool
            Whether there were any.
        """
        result, self._decisions = self.result, 0
        result.clear_run()
        self.resume(self.clock.now)
        infos = self.take(limit)
        tried = self.attempt(infos) if infos else 0
        self.bind()
        self.clock.attempted(tried)
        return bool(infos or result.has_placed or result.skipped)

    def decided(self) -> float:
        """Return when the next pod of the batch is decided; each attempt takes its time.

        Returns
        -------
        float
            Seconds, not before the decision that was asked for last.
        """
        self._decisions += 1
        self._decided = max(self._decided, self.clock.after(self._decisions))
        return self._decided

    # ---- the pods of operations ----------------------------------------------------------------------------

    def note_placements(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        if self.operations is not None:
            self.operations.note_placements(keys_of(infos), nodes)
        super().note_placements(infos, nodes)

    def note_failures(self, infos: list[QueuedPodInfo], failures: list[Failure]) -> None:
        if self.operations is not None:
            self.operations.note_failures(keys_of(infos), failures)
        super().note_failures(infos, failures)

    def note_evictions(self, evicted: Mapping[str, Eviction]) -> None:
        super().note_evictions(evicted)
        if self.operations is not None:
            self.operations.note_evictions(evicted)
