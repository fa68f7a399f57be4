"""Opportunistic batching (KEP-5598): the scored nodes of one search serve equal pods in the cycles right
after it.

kube-scheduler v1.36 and v1.37, framework/runtime/batch.go. Upstream keeps a list per profile, with the number
of the cycle that stored it. Only the very next cycle may use a list, so one list for all profiles is enough
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.decider import Decider, TieBreak
from moorage._core.decide.scored_nodes import ScoredNodes
from moorage.engine.framework.runtime.call import StatusError
from moorage.engine.framework.runtime.runtime import Target
from moorage.kube.model.pod import Pod

from .node_search import NodeSearch
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
    rescores : bool, optional
        `Release.last_node_is_rescored`.

    Attributes
    ----------
    scored : ScoredNodes or None
        The list of the last cycle.
    """

    def __init__(self, is_on: bool, clock: Callable[[], float], rescores: bool = False) -> None:
        self.is_on = is_on
        self.clock = clock
        self.rescores = rescores
        self.scored: ScoredNodes | None = None

    def take(self) -> ScoredNodes | None:
        """Remove and return the list at the beginning of a cycle; a list that this cycle does not use
        expires."""
        scored, self.scored = self.scored, None
        return scored

    def save(self) -> object:
        """Return a copy of the list for `undo`."""
        return None if self.scored is None else self.scored.copy()

    def undo(self, saved: Any) -> None:
        """Restore a saved list."""
        self.scored = saved

    def release(self, saved: object) -> None:
        """Do nothing: a saved list needs no release."""

    def clone(self) -> Batching:
        """Return the batching of a fork, without a list."""
        return Batching(self.is_on, self.clock, self.rescores)

    def is_fresh(self, scored: ScoredNodes, signature: bytes | None) -> bool:
        """Whether a list is of pods with a signature, and not older than `MAX_AGE`."""
        is_signed = signature is not None and scored.signature == signature
        return is_signed and self.clock() - scored.created <= MAX_AGE

    def find_hint(
        self, nodes: NodeSearch, scored: ScoredNodes | None, target: Target, pod: Pod, signature: bytes | None
    ) -> Hint:
        """Take a node from the list of the last cycle, if a pod may use the list.

        The conditions are: the pod has the signature of the list, and the list is at most 0.5 s old. Where
        the node of the last pod rejects this pod (nominated pods do not count), the other nodes compare as
        they did before. Where it does not, the list is of no use up to v1.36; since v1.37 that node is scored
        again, and pods with a nominated node do not use the list (batch.go, GetNodeHint).

        Parameters
        ----------
        nodes : NodeSearch
            Begun for the pod.
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
        if scored is None or not len(scored) or not self.is_fresh(scored, signature):
            return Hint(signature)
        if self.rescores and pod.status.nominated_node_name:
            return Hint(signature)
        try:
            offered = self._offered(nodes, scored, target)
        except StatusError:
            return Hint(signature)
        if offered is None:
            return Hint(signature)
        return Hint(signature, offered, nodes.search.state.symbols.names[offered.pop()] or "")

    def _offered(self, nodes: NodeSearch, scored: ScoredNodes, target: Target) -> ScoredNodes | None:
        """The nodes among which the next pod chooses, after the last one took its node; see `find_hint`."""
        search = nodes.search
        row = scored.last_row(search.state.table)
        if row < 0:
            return None
        if search.verdict(row, *target, nominated=False):
            return scored
        if not self.rescores:
            return None
        with nodes.bridge.scoring_again() as pre_score:
            return scored.rescored(search, target, pre_score)

    def leave_nodes(self, decider: Decider, hint: Hint, decision: Decision, target: Target) -> Decision:
        """Leave a list to the next cycle: the rest of the list that proposed the chosen node, or a new one.

        Parameters
        ----------
        decider : Decider
            Has taken the decision.
        hint : Hint
            The hint with which the cycle began.
        decision : Decision
            With a node.
        target : (int, int, int)
            Of the pod (`target_of`).

        Returns
        -------
        Decision
            With `hinted` set where the node is the hint.
        """
        totals, tie_break = decision.totals, decider.tie_break
        if hint.scored is not None and decision.node == hint.node:
            self.scored = hint.scored
            return replace(decision, hinted=True)
        # With random ties each pod is scored by itself, as before v1.35, which introduced batching.
        if hint.signature is not None and totals is not None and tie_break != TieBreak.RANDOM:
            cluster, now = decider.state, self.clock()
            rows = cluster.view.rows_at(decision.feasible)
            raw = decider.search.raw_scores(rows, *target) if self.rescores else None
            names, by_heap = cluster.table.name_symbols(rows), tie_break == TieBreak.GO_HEAP
            self.scored = ScoredNodes(hint.signature, now, names, totals, by_heap, raw)
        return decision
