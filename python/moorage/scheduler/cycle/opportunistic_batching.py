"""Opportunistic batching (KEP-5598): the scored nodes of one search serve equal pods in the cycles right
after it.

kube-scheduler v1.36, framework/runtime/batch.go. Upstream keeps a list per profile, with the number of the
cycle that stored it. Only the very next cycle may use a list, so one list for all profiles is enough here.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.decider import TieBreak
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.runtime import Target
from moorage.objects.model.pod import Pod

from .results import Decision

if TYPE_CHECKING:
    from .engine import Engine

MAX_AGE = 0.5  # seconds


class ScoredNodes(Struct):
    """The scored nodes that a cycle leaves to the next one.

    Attributes
    ----------
    signature : bytes
        Signature of the pod for which the nodes were scored.
    chosen : str
        The node on which the last pod was placed.
    created : float
        Time of the search, seconds of the scheduler's clock.
    names : (n,) int32 array
        Symbols of the names of the feasible nodes, in the order found.
    totals : (n,) int64 array
        Weighted totals of these nodes.
    by_heap : bool
        Whether nodes are taken in the order of Go's container/heap. Otherwise higher totals come first, equal
        ones in the order found.
    """

    signature: bytes
    chosen: str
    created: float
    names: npt.NDArray[np.int32]
    totals: npt.NDArray[np.int64]
    by_heap: bool
    _left: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self.names) - 1 if self._left is None else len(self._left)

    def copy(self) -> ScoredNodes:
        """Return a copy from which nodes are taken independently."""
        return replace(self, _left=None if self._left is None else self._left.copy())

    def best(self) -> int:
        """Return the symbol of the name of the best remaining node."""
        left = self._remaining()
        return left[0 if self.by_heap else -1][1]

    def pop(self) -> int:
        """Remove the best remaining node.

        Returns
        -------
        int
            Symbol of its name.
        """
        left = self._remaining()
        return (heap_pop(left) if self.by_heap else left.pop())[1]

    def _remaining(self) -> list[tuple[int, int]]:
        if self._left is None:
            # Sorted at the first use, as most lists are never used. The first node is the chosen one.
            self._left = list(zip(self.totals.tolist(), self.names.tolist(), strict=True))
            if self.by_heap:
                heap_init(self._left)
            else:
                self._left.sort(key=itemgetter(0), reverse=True)
                self._left.reverse()
            self.pop()
        return self._left


class Batching:
    """Holds the list of scored nodes that the last cycle left. A Participant of the cache's transactions.

    Parameters
    ----------
    is_on : bool
        False without the feature gate OpportunisticBatching and with extenders; no pod is signed then.
    clock : callable
        Returns seconds; a list expires after 0.5 s.

    Attributes
    ----------
    scored : ScoredNodes or None
        The list of the last cycle.
    """

    def __init__(self, is_on: bool, clock: Callable[[], float]) -> None:
        self.is_on = is_on
        self.clock = clock
        self.scored: ScoredNodes | None = None

    def take(self) -> ScoredNodes | None:
        """Remove and return the list at the beginning of a cycle; a list that this cycle does not use
        expires.

        Returns
        -------
        ScoredNodes or None
        """
        scored, self.scored = self.scored, None
        return scored

    def save(self) -> object:
        """Return a copy of the list for `undo`."""
        return None if self.scored is None else self.scored.copy()

    def undo(self, saved: object) -> None:
        """Restore a saved list.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        self.scored = cast(ScoredNodes | None, saved)

    def release(self, saved: object) -> None:
        """Do nothing: a saved list needs no release.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """

    def clone(self) -> Batching:
        """Return the batching of a fork, without a list."""
        return Batching(self.is_on, self.clock)


class Hint(Struct, frozen=True):
    """The proposal of opportunistic batching for a cycle.

    Attributes
    ----------
    signature : bytes or None
        Signature of the pod; None for a pod that batching does not handle.
    scored : ScoredNodes or None
        The list from which the node was taken.
    node : str
        Name of the proposed node; "" for none.
    """

    signature: bytes | None = None
    scored: ScoredNodes | None = None
    node: str = ""


def find_hint(engine: Engine, scored: ScoredNodes | None, state: CycleState, pod: Pod) -> Hint:
    """Take a node from the list of the last cycle, if the pod may use the list.

    The conditions are: the pod has the signature of the list, the list is at most 0.5 s old, and the node of
    the last pod rejects this pod (nominated pods do not count). The other nodes then compare as they did
    before (kube-scheduler v1.36, framework/runtime/batch.go GetNodeHint).

    Parameters
    ----------
    engine : Engine
    scored : ScoredNodes or None
        The list of the last cycle.
    state : CycleState
    pod : Pod

    Returns
    -------
    Hint
        Without a node, if the pod may not use the list.
    """
    signature = engine.sign(pod)
    if scored is None or not _may_use(engine, scored, state.target, signature):
        return Hint(signature)
    return Hint(signature, scored, engine.cache.state.symbols.names[scored.pop()] or "")


def _may_use(engine: Engine, scored: ScoredNodes, target: Target, signature: bytes | None) -> bool:
    """Whether a pod may use the list of the last cycle; see `find_hint`."""
    if signature is None or scored.signature != signature or len(scored) == 0:
        return False
    row = engine.row_in_view(scored.chosen)
    if row < 0 or engine.batching.clock() - scored.created > MAX_AGE:
        return False
    try:
        return engine.search.verdict(row, *target, nominated=False) != 0
    except StatusError:
        return False


def take_hint(engine: Engine, scored: ScoredNodes, target: Target, pod: Pod) -> int:
    """Take the next node of the list of the last cycle, if the pod may use the list and fits there. No pod
    is nominated, and all plugins are in the core.

    Parameters
    ----------
    engine : Engine
    scored : ScoredNodes
        The list; unchanged where the result is -1.
    target : (int, int, int)
        Class of the pod, symbol of spec.nodeName, symbol of the node it is pinned to; 0 for none.
    pod : Pod

    Returns
    -------
    int
        The row of the node; -1 where the pod needs a cycle of its own.
    """
    if not _may_use(engine, scored, target, engine.sign(pod)):
        return -1
    name = engine.cache.state.symbols.names[scored.best()] or ""
    row = engine.row_in_view(name)
    if row < 0 or engine.search.verdict(row, *target):
        return -1
    scored.pop()
    scored.chosen = name
    return row


def leave_nodes(engine: Engine, hint: Hint, decision: Decision) -> Decision:
    """Leave a list to the next cycle: the rest of the list that proposed the chosen node, or a new one.

    Parameters
    ----------
    engine : Engine
    hint : Hint
        The hint with which the cycle began.
    decision : Decision
        With a node.

    Returns
    -------
    Decision
        With `hinted` set where the node is the hint.
    """
    node, totals, tie_break = decision.node or "", decision.totals, engine.decider.tie_break
    if hint.scored is not None and node == hint.node:
        hint.scored.chosen = node
        engine.batching.scored = hint.scored
        return replace(decision, hinted=True)
    # With random ties each pod is scored by itself, as before v1.35, which introduced batching.
    if hint.signature is not None and totals is not None and tie_break != TieBreak.RANDOM:
        cluster, now = engine.cache.state, engine.batching.clock()
        names = cluster.table.name_symbols(cluster.view.rows()[decision.feasible])
        by_heap = tie_break == TieBreak.GO_HEAP
        engine.batching.scored = ScoredNodes(hint.signature, node, now, names, totals, by_heap)
    return decision


def heap_init(heap: list[tuple[int, int]]) -> None:
    """Order a list as a heap with the highest total on top, as Go's container/heap Init does.

    Parameters
    ----------
    heap : list of (int, int)
        (Total, symbol of the node name); changed in place.
    """
    for at in range(len(heap) // 2 - 1, -1, -1):
        _sift_down(heap, at, len(heap))


def heap_pop(heap: list[tuple[int, int]]) -> tuple[int, int]:
    """Remove the top of a heap, as Go's container/heap Pop does.

    Parameters
    ----------
    heap : list of (int, int)
        (Total, symbol of the node name), not empty; changed in place.

    Returns
    -------
    (int, int)
        The pair with the highest total.
    """
    heap[0], heap[-1] = heap[-1], heap[0]
    _sift_down(heap, 0, len(heap) - 1)
    return heap.pop()


def _sift_down(heap: list[tuple[int, int]], at: int, n: int) -> None:
    """Move an item down. A child rises only if strictly higher than its parent, the right one only if
    strictly higher than the left."""
    while (child := 2 * at + 1) < n:
        if child + 1 < n and heap[child + 1][0] > heap[child][0]:
            child += 1
        if heap[child][0] <= heap[at][0]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child
