"""Why nodes of pools stay: Karpenter's own message, or what it leaves unsaid."""

from __future__ import annotations

from typing import NamedTuple

from moorage.kube import NodePool

from ..claims.claim_template import idle_pools
from ..cluster_view import ClusterView
from .balanced import PoolTotals, is_balanced
from .candidates import Candidates, NodeEvent, object_of
from .claim_conditions import is_consolidatable
from .disrupt import METHODS, REASONS, Disruption

_REFUSALS = ("DisruptionBlocked", "Unconsolidatable", "ConsolidationRejected")


class Stay(NamedTuple):
    """A node that stays; `reason` is that of Karpenter's event, "" where it has none."""

    node: str
    reason: str
    message: str


def staying(view: ClusterView) -> tuple[Stay, ...]:
    """The nodes that a pass leaves, each with why."""
    return _stays(view, "")


def why_stays(view: ClusterView, name: str) -> Stay:
    """Why a node stays that is looked at alone."""
    return next(stay for stay in _stays(view, name) if stay.node == name)


def _stays(view: ClusterView, only: str) -> tuple[Stay, ...]:
    disruption = Disruption(view)
    results = {method: disruption.play(method, only) for method in METHODS}
    commands = [result.command for result in results.values() if result.command is not None]
    going = {one.name for command in commands for one in command.candidates}
    events: dict[str, NodeEvent] = {}
    for result in results.values():
        for event in result.events:
            if event.reason in _REFUSALS:
                known = events.get(event.object)
                if known is None or _REFUSALS.index(event.reason) < _REFUSALS.index(known.reason):
                    events[event.object] = event
    silent = _silent(view, {method: result.budgets for method, result in results.items()})
    found = []
    for state in view.states:
        if state.claim is None or state.name in going:
            continue
        # Until a node is registered, the state has the name of its claim.
        name = state.name if state.node is None else state.node.name
        told = events.get(object_of(state))
        if told is not None:
            found.append(Stay(name, told.reason, told.message))
        else:
            found.append(Stay(name, "", silent.get(state.name, "")))
    return tuple(found)


def _silent(view: ClusterView, budgets: dict[str, dict[str, int]]) -> dict[str, str]:
    """Why candidates stay of which Karpenter tells nothing."""
    candidates = Candidates(view, view.situation.now)
    totals = PoolTotals(view, candidates.found)
    found = {}
    for one in candidates.found:
        pool, method = one.pool, "emptiness" if one.is_empty else "single"
        if not (one.is_empty or view.pools):
            idle = idle_pools(view.objects.list(NodePool))
            why = f"Karpenter removes only empty nodes now, since no NodePool makes nodes for pods: {idle}"
        elif not is_consolidatable(pool, one.claim, view.situation.now):
            after = pool.spec.disruption.consolidate_after
            why = f"its pods came or went less than consolidateAfter ({after}) ago"
        elif not budgets[method][pool.name]:
            why = f"the budgets of NodePool {pool.name} allow no disruption for {REASONS[method]} now"
        elif not totals.could_pass(one):
            why = "policy Balanced: even its deletion saves too little for what it disturbs"
        elif is_balanced(pool):
            why = "policy Balanced: what would be done saves too little for what it disturbs"
        else:
            why = "other nodes go first"
        found[one.name] = why
    return found
