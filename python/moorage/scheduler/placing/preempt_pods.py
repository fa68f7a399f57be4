"""Pods placed at once, where they fit or where others are evicted for them; all of it can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.bulk_operations import check_new
from moorage._core.preempt.preemptor import Evictions
from moorage.errors import MoorageError
from moorage.framework.runtime.preempt_handle import budgets_of
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod
from moorage.preemption.default_preemption import DefaultPreemption
from moorage.preemption.eviction_units import Units
from moorage.scheduler.cycle.engine import Engine
from moorage.store import NotFoundError

if TYPE_CHECKING:
    from moorage.scheduler.scheduling_context import SchedulingContext

NOT_IN_CORE = "pod {}: a plugin or an extender outside the core has a say, so it cannot be placed at once"
WHOLE = "pod {}: there are pod groups that are only evicted whole, so it cannot be placed at once"
ENDED = "what was placed has been kept or taken back already"
Offsets = npt.NDArray[np.int64]


class Preemption:
    """Pods that were placed, and whom they evicted: no result yet, but the handle of an open transaction.

    Until `commit` or `undo` the transaction is open that holds all of it: the cache's lock is this thread's,
    and the store has not heard of anything. As a context manager it undoes at the end what was not committed.

    Attributes
    ----------
    pods : list of Pod
        As they were given.
    rows : (pods,) int32 array
        Row of the node table that each pod was put on, -1 where it fits nowhere.
    """

    def __init__(self, context: SchedulingContext, pods: Sequence[Pod]) -> None:
        self._context = context
        self._stack = ExitStack()
        self._transaction = self._stack.enter_context(context.cache.transaction())
        self._evictions: list[tuple[int, Evictions]] = []
        self._is_open = True
        self.pods = list(pods)
        self.rows: npt.NDArray[np.int32] = np.full(len(pods), -1, dtype=np.int32)

    def victims(self, at: int) -> list[Pod]:
        """Whom the pod at this place evicted, most important first, with the node they were on.

        Parameters
        ----------
        at : int
            Place of the pod.

        Returns
        -------
        list of Pod
        """
        for first, evictions in self._evictions:
            if first <= at < first + len(evictions.rows):
                return evictions.victims(at - first)
        return []

    def place(self, engine: Engine, target: Target, at: int, end: int, offsets: Offsets) -> None:
        """Place the pods from `at` to `end`, which are of one target.

        Parameters
        ----------
        engine : Engine
        target : (int, int, int)
            Class, symbol of the named node, symbol of the node it is pinned to; 0 for none.
        at, end : int
        offsets : (end - at,) int64 array
            See `preempt_pods`.
        """
        run, arguments = self.pods[at:end], _arguments(engine)
        engine.batching.take()
        engine.search.node_names = None
        engine.search.nominate(_going_before(engine, run))
        evictions = engine.framework.preemptor.place_run(
            target[0],
            run,
            budgets_of(engine.handle),
            target[1],
            target[2],
            offsets,
            arguments["minCandidateNodesPercentage"],
            arguments["minCandidateNodesAbsolute"],
        )
        self._evictions.append((at, evictions))
        self.rows[at : at + len(evictions.rows)] = evictions.rows

    def undo(self) -> None:
        """Take everything back: pods, victims, their order on each node, the rotation."""
        self._end()
        self._stack.close()

    def commit(self) -> None:
        """Keep everything. The pods that were placed stay assumed and are nominated no more; victims that the
        store knows are deleted there."""
        self._end()
        victims = [victim for at in range(len(self.pods)) for victim in self.victims(at)]
        self._transaction.commit()
        self._stack.close()
        context = self._context
        for pod, row in zip(self.pods, self.rows.tolist(), strict=True):
            if row >= 0:
                context.handle.nominator.delete_nominated_pod_if_exists(pod)
        for victim in victims:
            try:
                current = context.handle.client.get(Pod, victim.name, victim.namespace)
                if current.metadata.uid == victim.metadata.uid:
                    context.handle.client.delete(Pod, victim.name, victim.namespace)
            except NotFoundError:
                pass  # the cache alone knew it, or somebody else was faster
        context.sync()

    def _end(self) -> None:
        if not self._is_open:
            raise MoorageError(ENDED)
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_open:
            self.undo()


def preempt_pods(context: SchedulingContext, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
    """Place pods at once, one after the other: where they fit, or else on the node where that costs least,
    without the pods of lower priority there that have to go. Victims need no time, and nobody takes evictions
    off disruption budgets in between.

    Parameters
    ----------
    pods : sequence of Pod
        Not in the cache. Their own nominations have no effect.
    offsets : sequence of int, optional
        Of each pod, the index of the node at which dry runs begin, among those that eviction might help,
        modulo their number; 0 by default.

    Returns
    -------
    Preemption
        To be committed or undone.

    Raises
    ------
    CacheError
        For a pod that is in the cache, or comes twice.
    MoorageError
        Where not all plugins of a pod's profile are in the core, there are extenders, or pod groups that are
        only evicted whole.
    """
    if offsets and len(offsets) != len(pods):
        raise ValueError("an offset for each pod is wanted")
    begin = np.array(offsets or [0] * len(pods), dtype=np.int64)
    check_new(context.cache.state, pods)
    asked = [(context.engine_of(pod), context.target_of(pod)) for pod in pods]
    for pod, (engine, _) in zip(pods, asked, strict=True):
        if why := why_not_at_once(engine, pod):
            raise MoorageError(why)
    out, at = Preemption(context, pods), 0
    try:
        for (_, target), equal in groupby(asked, key=lambda one: (id(one[0]), one[1])):
            end, engine = at + len(list(equal)), asked[at][0]
            if engine.passes(target, pods[at]):  # else PreFilter rejects it whoever goes
                out.place(context.rotation.take(engine), target, at, end, begin[at:end])
            at = end
    except BaseException:
        out.undo()
        raise
    return out


def why_not_at_once(engine: Engine, pod: Pod) -> str:
    """Why a pod cannot be placed at once; "" where it can.

    Parameters
    ----------
    engine : Engine
        Of the pod's profile.
    pod : Pod

    Returns
    -------
    str
    """
    in_core = engine.is_in_core_for(pod) and engine.framework.preemptor.suits
    if not in_core or engine.handle.extenders:
        return NOT_IN_CORE.format(pod.key)
    return WHOLE.format(pod.key) if Units(engine.handle) else ""


def _going_before(engine: Engine, run: Sequence[Pod]) -> list[tuple[int, list[Pod]]]:
    """Per row the nominated pods that go before those of a run."""
    ours = {pod.metadata.uid for pod in run}
    before = [
        (engine.row_in_view(node), [pod for pod in pods if pod.metadata.uid not in ours])
        for node, pods in engine.handle.nominator.nominated_before(run[0]).items()
    ]
    return [(row, pods) for row, pods in before if row >= 0]


def _arguments(engine: Engine) -> dict[str, int]:
    """The arguments of the profile's DefaultPreemption; the default ones where it has none."""
    found = [plugin.args for plugin in engine.profile.plugins if isinstance(plugin, DefaultPreemption)]
    return {**DefaultPreemption.default_args, **(found[0] if found else {})}
