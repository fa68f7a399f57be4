"""PodsAhead: the next pods of a timeline, made and read by the core together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moorage._core.decide.batch_rows import BoundSink
from moorage._core.decide.pod_batch import Route
from moorage.engine.scheduler import ScheduleResult
from moorage.engine.scheduler.place import APART, LEDGER

if TYPE_CHECKING:
    from moorage._core.decide.pod_batch import PodBatch
    from moorage.engine.scheduler.scheduling_context import SchedulingContext
    from moorage.kube import Pod

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
    pods : sequence of Pod
    first : int
    used : int
        How many of them have been created.
    """

    __slots__ = ("_batch", "_context", "_result", "_rows", "first", "pods", "used")

    _result: ScheduleResult
    _rows: memoryview

    def __init__(self, context: SchedulingContext, pods: Sequence[Pod], first: int) -> None:
        self.pods, self.first, self.used = pods, first, 0
        self._context = context
        self._batch: PodBatch | None = None

    def place(self, at: int, alone: bool) -> int:
        """Place a pod by the core, while no pod waits.

        Parameters
        ----------
        at : int
            Index of the pod.
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
