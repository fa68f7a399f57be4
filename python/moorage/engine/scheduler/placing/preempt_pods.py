"""Immediate preemption: pods are placed at once, with evictions where they fit nowhere, in an open
transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from moorage._core.preempt.preemptor import Evictions
from moorage.engine.framework.runtime.preempt_handle import budgets_of
from moorage.engine.framework.runtime.runtime import Target
from moorage.engine.preemption.actuation import make_room
from moorage.engine.preemption.default_preemption import DefaultPreemption
from moorage.engine.preemption.eviction_units import groups_of
from moorage.errors import MoorageError
from moorage.kube.model.pod import Pod

from ..check_arguments import check_pods, check_readable
from ..cycle.engine import Engine

if TYPE_CHECKING:
    from ..scheduling_context import SchedulingContext

NOT_IN_CORE = "pod {}: a plugin or an extender outside the core takes part, so it cannot be placed at once"
BY_NODE = (
    "pod {} cannot be placed at once: plugins decide node by node about its volumes or claims, and what it "
    "gets is written when it is bound; create the pod in a transaction and call run()"
)
ENDED = "what was placed has been kept or taken back already"
Offsets = npt.NDArray[np.int64]


class Preemption:
    """Pods placed by `preempt_pods` with their victims: the handle of an open transaction.

    The transaction is open until `commit`, `undo` or the end of the one around it. Until then the current
    thread holds the lock of the cache, and nothing is written to the store. At the end of a ``with`` block an
    open transaction is undone.

    Attributes
    ----------
    pods : list of Pod
        In the order given.
    rows : (pods,) int32 array
        Row in the node table of each pod's node; -1 where it fits nowhere.
    """

    def __init__(self, context: SchedulingContext, pods: Sequence[Pod]) -> None:
        self._context = context
        self._bracket = context.cache.transaction()
        self._transaction = self._bracket.__enter__()
        self._evictions: list[tuple[int, Evictions]] = []
        self._is_open = True
        self.pods = list(pods)
        self.rows: npt.NDArray[np.int32] = np.full(len(pods), -1, dtype=np.int32)

    def victims(self, at: int) -> list[Pod]:
        """Return the pods evicted for one pod, most important first, with the node that they were on.

        Parameters
        ----------
        at : int
            Index of the pod.
        """
        for first, evictions in self._evictions:
            if first <= at < first + len(evictions.rows):
                return evictions.victims(at - first)
        return []

    def place(self, engine: Engine, target: Target, at: int, end: int, offsets: Offsets) -> None:
        """Place the pods from `at` up to, but not including, `end`.

        Parameters
        ----------
        target : (int, int, int)
            Class of these pods, symbol of spec.nodeName, symbol of the node they are pinned to; 0 for none.
        at, end : int
            Indexes in `pods`.
        offsets : (end - at,) int64 array
            See `preempt_pods`.
        """
        run, arguments = self.pods[at:end], _arguments(engine)
        engine.batching.take()
        engine.search.node_names = None
        engine.search.nominate(_going_before(engine, run))
        evictions = engine.framework.preemptor.place_run(
            target,
            run,
            budgets_of(engine.handle),
            offsets,
            (arguments["minCandidateNodesPercentage"], arguments["minCandidateNodesAbsolute"]),
            groups_of(engine.handle),
        )
        self._evictions.append((at, evictions))
        self.rows[at : at + len(evictions.rows)] = evictions.rows

    def undo(self) -> None:
        """Undo everything: placed pods, victims and their order on each node, rotation.

        Raises
        ------
        MoorageError
            The transaction has ended.
        """
        self._check_open()
        self._bracket.__exit__(None, None, None)
        self._is_open = False  # last: if a signal comes first, this can be repeated

    def commit(self) -> None:
        """Keep everything. The placed pods stay assumed and lose their nomination.

        For each pod the nominations of lower priority to its node end, and its victims are evicted, as those
        of `Scheduler.run`: victims that wait on Permit are rejected, those in PreBind are cancelled, and
        others that the store has get the condition DisruptionTarget and are deleted there, unless they are
        terminating already.

        Raises
        ------
        MoorageError
            The transaction has ended, or there is one around it that cannot undo writes to the store.
        ApiError
            The client refused to delete a victim. Victims after it stay in the store.
        """
        context = self._context
        if self._is_open and len(context.cache.transactions) > 1:
            context.enlist()
        self._check_open()
        self._is_open = False
        victims, row_name = list(map(self.victims, range(len(self.pods)))), context.cache.state.table.row_name
        self._transaction.commit()
        self._bracket.__exit__(None, None, None)
        for at, (pod, row) in enumerate(zip(self.pods, self.rows.tolist(), strict=True)):
            if row >= 0:
                context.handle.nominator.delete_nominated_pod_if_exists(pod)
            if victims[at]:
                handle = context.engine_of(pod).handle.preempt_handle()
                make_room(handle, row_name(row), pod, victims[at], DefaultPreemption.name)
        context.sync()

    def _check_open(self) -> None:
        """Raise MoorageError if the transaction, or one around it, has ended."""
        if not self._is_open or self._transaction.is_over:
            raise MoorageError(ENDED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_open:
            self.undo()


def preempt_pods(context: SchedulingContext, pods: Sequence[Pod], offsets: Sequence[int] = ()) -> Preemption:
    """Place pods one after the other: on a feasible node, or else on the node where eviction of pods of lower
    priority costs least.

    Victims disappear at once, and disruption budgets are not updated in between. A pod whose volumes the
    plugins accept on every node, whoever leaves, is placed as one without volumes (`Engine.cycle_target`),
    unless a plugin scores volumes, as VolumeBinding does with StorageCapacityScoring (on by default in 1.37).
    Others with volumes or claims are refused: plugins decide about them node by node, and what they get is
    written when they are bound. `Scheduler.run` in a transaction evicts for them, too.

    Parameters
    ----------
    pods : sequence of Pod
        Not in the cache. Their own nominations have no effect.
    offsets : sequence of int, optional
        For each pod, the index at which dry runs begin among the nodes where eviction might help, modulo
        their number; 0 by default.

    Returns
    -------
    Preemption
        To be committed or undone.

    Raises
    ------
    ValueError
        There are not as many offsets as pods.
    CacheError
        A pod is in the cache or appears twice.
    InputError
        A pod has something else where a quantity belongs.
    MoorageError
        A plugin of a pod's profile is not in the core, or there are extenders; or plugins decide about the
        volumes or claims of a pod node by node, once the pods before it are placed.
    """
    with context.cache.lock:  # what another thread has tried out and not yet undone is not seen
        check_pods(context.cache.state, pods)
        if offsets and len(offsets) != len(pods):
            raise ValueError("give an offset for each pod")
        begin = np.array(offsets or [0] * len(pods), dtype=np.int64)
        try:
            runs = [_run_of(context.engine_of(pod), pod, at) for at, pod in enumerate(pods)]
        except ValueError:
            check_readable(pods)
            raise
        out, at = Preemption(context, pods), 0
        try:
            for _, equal in groupby(runs):
                end, engine = at + len(list(equal)), context.engine_of(pods[at])
                target = _target_at_once(engine, pods[at])
                if target is None:
                    raise MoorageError(why_not_at_once(engine, pods[at]))
                if engine.passes(target, pods[at]):  # else PreFilter rejects it, whichever pods are evicted
                    out.place(context.rotation.take(engine), target, at, end, begin[at:end])
                at = end
        except BaseException:
            out.undo()
            raise
        return out


def why_not_at_once(engine: Engine, pod: Pod) -> str:
    """Return why a pod cannot be placed by `preempt_pods`.

    Parameters
    ----------
    engine : Engine
        Of the pod's profile.

    Returns
    -------
    str
        "" where it can.
    """
    if _target_at_once(engine, pod) is not None:
        return ""
    is_outside = (
        engine.handle.extenders or not engine.profile.is_in_core or not engine.framework.preemptor.suits
    )
    return (NOT_IN_CORE if is_outside else BY_NODE).format(pod.key)


def _target_at_once(engine: Engine, pod: Pod) -> Target | None:
    """Return the target by which a pod is placed at once, as the cluster is now; None where it cannot be."""
    target = engine.cycle_target(pod, engine.framework.target_of(pod))
    in_core = engine.profile_of(target).is_in_core and engine.framework.preemptor.suits
    return target if in_core and engine.decides_alone(pod) and not engine.handle.extenders else None


def _run_of(engine: Engine, pod: Pod, at: int) -> tuple[int, Target, int]:
    """Return what is the same for pods that are placed in one run. A pod with volumes has one of its own:
    whether they suit every node depends on the pods before it."""
    asks = engine.framework.asks_volume_plugins(pod)
    return id(engine), engine.framework.target_of(pod), at if asks else -1


def _going_before(engine: Engine, run: Sequence[Pod]) -> list[tuple[int, list[Pod]]]:
    """Return, per row, the nominated pods that go before the pods of a run."""
    uids = {pod.metadata.uid for pod in run}
    before = [
        (engine.row_in_view(node), [pod for pod in pods if pod.metadata.uid not in uids])
        for node, pods in engine.handle.nominator.nominated_before(run[0]).items()
    ]
    return [(row, pods) for row, pods in before if row >= 0]


def _arguments(engine: Engine) -> dict[str, int]:
    """Return the arguments of the profile's DefaultPreemption, or the default ones."""
    configured = [plugin.args for plugin in engine.profile.plugins if isinstance(plugin, DefaultPreemption)]
    return {**DefaultPreemption.default_args, **(configured[0] if configured else {})}
