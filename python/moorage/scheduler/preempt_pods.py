"""Pods placed at once, where they fit or where others are evicted for them; all of it can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from moorage._core.preemptor import Evictions
from moorage.errors import CacheError, MoorageError
from moorage.framework.runtime import Target
from moorage.objects.pod import Pod
from moorage.preemption.default_preemption import DefaultPreemption
from moorage.preemption.evaluator import budgets_of
from moorage.store import NotFoundError

from .engine import NO_ROWS, Engine

if TYPE_CHECKING:
    from .scheduler import Scheduler

CANNOT_BE_ASSUMED = "pod {} is in the cache, so can't be assumed"
ENDED = "what was placed has been kept or taken back already"


class Preemption:
    """Pods that were placed, and whom they evicted. Until `commit` or `undo` the transaction is open that holds
    all of it: the cache is this thread's, and the store has not heard of anything. As a context manager, it is
    undone at the end unless it was committed.

    Attributes
    ----------
    pods : list of Pod
        As they were given.
    rows : (pods,) int32 array
        Row of the node table that each pod was put on, -1 where it fits nowhere.
    """

    def __init__(self, scheduler: Scheduler, pods: Sequence[Pod]) -> None:
        self._scheduler = scheduler
        self._stack = ExitStack()
        self._transaction = self._stack.enter_context(scheduler.cache.transaction())
        self._evicted: list[tuple[Evictions, int]] = []
        self._is_open = True
        self.pods = list(pods)
        self.rows: npt.NDArray[np.int32] = np.full(len(pods), -1, dtype=np.int32)

    def victims(self, at: int) -> list[Pod]:
        """Whom the pod at this place evicted, most important first, with the node they were on."""
        for evictions, first in self._evicted:
            if first <= at < first + len(evictions.rows):
                return evictions.victims(at - first)
        return []

    def place(self, at: int, end: int, target: Target, engine: Engine, offsets: npt.NDArray[np.int64]) -> None:
        """Place pods of one target, from `at` to `end`."""
        run, args = self.pods[at:end], preemption_arguments(engine)
        engine.batching.take()
        engine.begin_nominations(run[0])
        evictions = engine.preemptor.place_run(
            target[0],
            run,
            budgets_of(engine.handle),
            target[1],
            target[2],
            offsets[at:end],
            args["minCandidateNodesPercentage"],
            args["minCandidateNodesAbsolute"],
        )
        self._evicted.append((evictions, at))
        self.rows[at : at + len(evictions.rows)] = evictions.rows

    def undo(self) -> None:
        """Take everything back: pods, victims, their order on each node, the rotation."""
        self._end()
        self._stack.close()

    def commit(self) -> None:
        """Keep everything. Victims that the store knows are deleted there; the pods that were placed are assumed
        and nominated no more."""
        self._end()
        scheduler = self._scheduler
        victims = [victim for at in range(len(self.pods)) for victim in self.victims(at)]
        self._transaction.commit()
        self._stack.close()
        for pod, row in zip(self.pods, self.rows.tolist(), strict=True):
            if row >= 0:
                scheduler.handle.nominator.delete_nominated_pod_if_exists(pod)
        for victim in victims:
            try:
                current = scheduler.client.get(Pod, victim.name, victim.namespace)
                if current.metadata.uid == victim.metadata.uid:
                    scheduler.client.delete(Pod, victim.name, victim.namespace)
            except NotFoundError:
                pass  # the cache alone knew it, or somebody else was faster
        scheduler.sync()

    def _end(self) -> None:
        if not self._is_open:
            raise MoorageError(ENDED)
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_open:
            self.undo()


def preempt(scheduler: Scheduler, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
    """See `Scheduler.preempt`."""
    if offsets and len(offsets) != len(pods):
        raise ValueError("an offset for each pod is wanted")
    targets = [scheduler.classify(pod) for pod in pods]
    engines = [scheduler._engine_of(pod) for pod in pods]
    _check(scheduler, pods, targets, engines)
    begin = np.array(offsets or [0] * len(pods), dtype=np.int64)
    out = Preemption(scheduler, pods)
    try:
        at = 0
        for (name, target), run in groupby(range(len(pods)), lambda one: (id(engines[one]), targets[one])):
            end = at + len(list(run))
            out.place(at, end, target, scheduler.rotation.take(engines[at]), begin)
            at = end
    except BaseException:
        out.undo()
        raise
    return out


def _check(
    scheduler: Scheduler, pods: Sequence[Pod], targets: Sequence[Target], engines: Sequence[Engine]
) -> None:
    seen = set()
    for pod in pods:
        if pod.metadata.uid in seen or scheduler.cache.state.has_pod(pod):
            raise CacheError(CANNOT_BE_ASSUMED.format(pod.metadata.uid))
        seen.add(pod.metadata.uid)
    for pod, target, engine in zip(pods, targets, engines, strict=True):
        if not (engine.profile.is_in_core and engine.preemptor.suits) or scheduler.handle.extenders:
            raise MoorageError(
                f"pod {pod.key}: a plugin or an extender outside the core has a say, so it cannot be placed at once"
            )
        if not engine.passes_at_once(target, pod):
            raise MoorageError(f"pod {pod.key}: a plugin objects to it on every node")


def preemption_arguments(engine: Engine) -> dict[str, int]:
    """The arguments of the profile's DefaultPreemption; the default ones where it has none."""
    for plugin in engine.profile.plugins:
        if isinstance(plugin, DefaultPreemption):
            return dict(plugin.args)
    return dict(DefaultPreemption.default_args)


__all__ = ["NO_ROWS", "Preemption", "preempt"]
