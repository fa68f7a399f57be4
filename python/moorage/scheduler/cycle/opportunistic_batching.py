"""Opportunistic batching (KEP-5598): the scored nodes of one search serve equal pods in the cycles right
after it.

kube-scheduler v1.36, framework/runtime/batch.go. Upstream keeps a list per profile, with the number of the
cycle that stored it. Only the very next cycle may use a list, so one list for all profiles is enough here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.decider import Decider, TieBreak
from moorage._core.decide.scored_nodes import ScoredNodes
from moorage._core.decide.search import Search
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.runtime import Target

from .results import Decision

MAX_AGE = 0.5  # seconds


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

    def undo(self, saved: Any) -> None:
        """Restore a saved list.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        self.scored = saved

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

    def is_fresh(self, scored: ScoredNodes, signature: bytes | None) -> bool:
        """Whether a list is of pods with a signature, and not older than `MAX_AGE`.

        Parameters
        ----------
        scored : ScoredNodes
        signature : bytes or None
        """
        is_signed = signature is not None and scored.signature == signature
        return is_signed and self.clock() - scored.created <= MAX_AGE

    def find_hint(
        self, search: Search, scored: ScoredNodes | None, target: Target, signature: bytes | None
    ) -> Hint:
        """Take a node from the list of the last cycle, if a pod may use the list.

        The conditions are: the pod has the signature of the list, the list is at most 0.5 s old, and the node
        of the last pod rejects this pod (nominated pods do not count). The other nodes then compare as they
        did before (kube-scheduler v1.36, framework/runtime/batch.go GetNodeHint).

        Parameters
        ----------
        search : Search
        scored : ScoredNodes or None
            The list of the last cycle.
        target : (int, int, int)
            Of the pod (`target_of`).
        signature : bytes or None
            Of the pod.

        Returns
        -------
        Hint
            Without a node, if the pod may not use the list.
        """
        if scored is None or not self._may_use(search, scored, target, signature):
            return Hint(signature)
        return Hint(signature, scored, search.state.symbols.names[scored.pop()] or "")

    def _may_use(self, search: Search, scored: ScoredNodes, target: Target, signature: bytes | None) -> bool:
        """Whether a pod may use the list of the last cycle; see `find_hint`."""
        table = search.state.table
        row = table.find_row(scored.chosen)
        if row is None or not table.is_present(row):
            return False
        if len(scored) == 0 or not self.is_fresh(scored, signature):
            return False
        try:
            return search.verdict(row, *target, nominated=False) != 0
        except StatusError:
            return False

    def leave_nodes(self, decider: Decider, hint: Hint, decision: Decision) -> Decision:
        """Leave a list to the next cycle: the rest of the list that proposed the chosen node, or a new one.

        Parameters
        ----------
        decider : Decider
            Has taken the decision.
        hint : Hint
            The hint with which the cycle began.
        decision : Decision
            With a node.

        Returns
        -------
        Decision
            With `hinted` set where the node is the hint.
        """
        node, totals, tie_break = decision.node or "", decision.totals, decider.tie_break
        if hint.scored is not None and node == hint.node:
            hint.scored.chosen = node
            self.scored = hint.scored
            return replace(decision, hinted=True)
        # With random ties each pod is scored by itself, as before v1.35, which introduced batching.
        if hint.signature is not None and totals is not None and tie_break != TieBreak.RANDOM:
            cluster, now = decider.state, self.clock()
            names = cluster.table.name_symbols(cluster.view.rows_at(decision.feasible))
            by_heap = tie_break == TieBreak.GO_HEAP
            self.scored = ScoredNodes(hint.signature, node, now, names, totals, by_heap)
        return decision
