"""Opportunistic batching (KEP-5598): a search's list of scored nodes serves equal pods that come right after.

kube-scheduler v1.36, framework/runtime/batch.go. Upstream keeps a list per profile and the number of the
cycle that stored it. Since only the very next cycle may use it, what the last cycle left is all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
from msgspec import structs

from moorage._core.decide.decider import TieBreak
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.runtime.call import StatusError
from moorage.objects.model.pod import Pod

from .results import Decision

if TYPE_CHECKING:
    from .engine import Engine

MAX_AGE = 0.5  # seconds


@dataclass(slots=True)
class ScoredNodes:
    """What the last cycle leaves to the next one.

    Attributes
    ----------
    signature : bytes
        Of the pod that the nodes were scored for.
    chosen : str
        The node that the last pod was put on.
    created : float
        Seconds, by the scheduler's clock.
    names : (n,) int32 array
        Symbols of the feasible nodes' names, in the order found.
    totals : (n,) int64 array
        Their weighted totals.
    by_heap : bool
        In the order of Go's heap; else higher totals first, and equals as they were found.
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
        """One that can be taken from on its own."""
        return replace(self, _left=None if self._left is None else self._left.copy())

    def pop(self) -> int:
        """Take the next best node off the list: the symbol of its name."""
        take = heap_pop if self.by_heap else list.pop
        if self._left is None:
            # Made only here, since most lists are never asked. The first of it has its pod already.
            self._left = list(zip(self.totals.tolist(), self.names.tolist(), strict=True))
            if self.by_heap:
                heap_init(self._left)
            else:
                self._left.sort(key=itemgetter(0), reverse=True)
                self._left.reverse()
            take(self._left)
        return take(self._left)[1]


class Batching:
    """The list that the last cycle left, whichever profile's it was. A Participant of transactions.

    Parameters
    ----------
    is_on : bool
        False where no pod is signed: without the feature gate OpportunisticBatching, or with extenders.
    clock : callable
        Seconds; a list is good for 0.5 of them.
    """

    def __init__(self, is_on: bool, clock: Callable[[], float]) -> None:
        self.is_on = is_on
        self.clock = clock
        self.scored: ScoredNodes | None = None

    def take(self) -> ScoredNodes | None:
        """A cycle begins: what the last one left is this one's, or lost."""
        scored, self.scored = self.scored, None
        return scored

    def save(self) -> object:
        return None if self.scored is None else self.scored.copy()

    def undo(self, saved: object) -> None:
        self.scored = cast(ScoredNodes | None, saved)

    def release(self, saved: object) -> None:
        pass

    def clone(self) -> Batching:
        """A fork has no engines yet; it begins without a list."""
        return Batching(self.is_on, self.clock)


@dataclass(frozen=True, slots=True)
class Hint:
    """What a cycle begins with.

    Attributes
    ----------
    signature : bytes or None
        Of its pod; None where batching leaves that alone.
    scored : ScoredNodes or None
        The list that it may use.
    node : str
        The node that the list proposes; "" where none does.
    """

    signature: bytes | None = None
    scored: ScoredNodes | None = None
    node: str = ""


def find_hint(engine: Engine, scored: ScoredNodes | None, state: CycleState, pod: Pod) -> Hint:
    """Take a node off the list that the last cycle left, where that may be used.

    It may for a pod of the same signature, for 0.5 seconds, where the node that the last pod was put on
    rejects this one, for which nominated pods do not count: the others then compare as they did.

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
    """
    signature = engine.sign(pod)
    if signature is None or scored is None or scored.signature != signature or len(scored) == 0:
        return Hint(signature)
    row = engine.row_in_view(scored.chosen)
    if row < 0 or engine.batching.clock() - scored.created > MAX_AGE:
        return Hint(signature)
    try:
        is_full = engine.search.verdict(row, *state.target, nominated=False) != 0
    except StatusError:
        is_full = False
    return (
        Hint(signature, scored, engine.cache.state.symbols.names[scored.pop()] or "")
        if is_full
        else Hint(signature)
    )


def leave_nodes(engine: Engine, hint: Hint, decision: Decision) -> Decision:
    """Leave a list to the next cycle: what remains of the one that proposed the chosen node, or a new one.

    Parameters
    ----------
    engine : Engine
    hint : Hint
        The one that the cycle began with.
    decision : Decision
        With a node.

    Returns
    -------
    Decision
        With `hinted` set where the hint was used.
    """
    node, totals, tie_break = decision.node or "", decision.totals, engine.decider.tie_break
    if hint.scored is not None and node == hint.node:
        hint.scored.chosen = node
        engine.batching.scored = hint.scored
        return structs.replace(decision, hinted=True)
    # Random ties are drawn for each pod anew, as before v1.35, which had no batching.
    if hint.signature is not None and totals is not None and tie_break != TieBreak.RANDOM:
        cluster, now = engine.cache.state, engine.batching.clock()
        names = cluster.table.name_symbols(cluster.view.rows()[decision.feasible])
        by_heap = tie_break == TieBreak.GO_HEAP
        engine.batching.scored = ScoredNodes(hint.signature, node, now, names, totals, by_heap)
    return decision


def heap_init(heap: list[tuple[int, int]]) -> None:
    """Order (total, name) pairs as Go's container/heap Init does with the higher total on top."""
    for at in range(len(heap) // 2 - 1, -1, -1):
        _sift_down(heap, at, len(heap))


def heap_pop(heap: list[tuple[int, int]]) -> tuple[int, int]:
    """Take the top off such a heap, as Go's Pop does."""
    heap[0], heap[-1] = heap[-1], heap[0]
    _sift_down(heap, 0, len(heap) - 1)
    return heap.pop()


def _sift_down(heap: list[tuple[int, int]], at: int, n: int) -> None:
    """A child goes up only where it is strictly higher, the right one only where it beats the left."""
    while (child := 2 * at + 1) < n:
        if child + 1 < n and heap[child + 1][0] > heap[child][0]:
            child += 1
        if heap[child][0] <= heap[at][0]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child
