"""Whether a move is worth it in pools whose policy is Balanced: what it saves against what it disturbs.

Rules: Karpenter v1.15.0, pkg/controllers/disruption/balanced.go and pkg/state/cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct

from moorage.autoscalers.instance_types.labels import CAPACITY_TYPE, INSTANCE_TYPE, POOL, ZONE
from moorage.kube import NodeClaim, NodePool

from ..cluster_view import ClusterView
from .candidates import NodeCandidate, cost_of_node, price_of
from .command import Command

BALANCED = "Balanced"
_K = 2


class Score(Struct, frozen=True):
    """The parts of a pool's price that a move saves, and of its disruption costs that it takes."""

    savings: float = 0.0
    disruption: float = 0.0

    @property
    def value(self) -> float:
        if self.savings <= 0:
            return 0.0
        return self.savings / self.disruption if self.disruption else inf

    @property
    def is_approved(self) -> bool:
        return self.value >= 1 / _K

    def __str__(self) -> str:
        value = "+Inf" if self.value == inf else f"{self.value:.2f}"
        shares = f"savings {self.savings * 100:.1f}%, disruption {self.disruption * 100:.1f}%"
        return f"score {value} >= threshold {1 / _K:.2f} (k: {_K}, {shares})"


def is_balanced(pool: NodePool) -> bool:
    return pool.spec.disruption.consolidation_policy == BALANCED


class PoolTotals:
    """What the nodes of pools cost, and what it would cost to remove them all."""

    def __init__(self, view: ClusterView, candidates: Iterable[NodeCandidate]) -> None:
        known = {one.name: one for one in candidates}
        self._prices: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        for pool in {one.pool.name for one in known.values() if is_balanced(one.pool)}:
            own = sum(one.price for one in known.values() if one.pool.name == pool)
            self._prices[pool] = _price_of_claims(view, pool) or own
            states = [state for state in view.states if state.labels.get(POOL) == pool]
            self._costs[pool] = sum(
                known[state.name].cost if state.name in known else cost_of_node(view, state)
                for state in states
            )

    def _score(self, pool: str, savings: float, cost: float) -> Score:
        price, total = self._prices[pool], self._costs[pool]
        return Score(savings / price, cost / total) if price > 0 and total > 0 else Score()

    def could_pass(self, one: NodeCandidate) -> bool:
        """Whether the deletion of a node, the best that could be done with it, would be approved."""
        if not is_balanced(one.pool) or self._prices[one.pool.name] <= 0:
            return True
        return self._score(one.pool.name, one.price, one.cost).is_approved

    def scores(self, command: Command) -> dict[str, Score]:
        """By Balanced pool, the score of its part of a move; what several save is split by their prices."""
        by_pool: dict[str, list[NodeCandidate]] = {}
        for one in command.candidates:
            by_pool.setdefault(one.pool.name, []).append(one)
        savings, whole = command.savings, command.source_price
        found = {}
        for pool, members in by_pool.items():
            if not is_balanced(members[0].pool):
                continue
            part = sum(one.price for one in members) / whole if whole > 0 and len(by_pool) > 1 else 1.0
            found[pool] = self._score(pool, savings * part, sum(one.cost for one in members))
        return found


def _price_of_claims(view: ClusterView, pool: str) -> float:
    """The prices of all claims of a pool that name type, zone and capacity type."""
    types = view.situation.types.get(pool, ())
    found = 0.0
    for claim in view.objects.list(NodeClaim):
        labels = claim.metadata.labels
        if labels.get(POOL) == pool and all(name in labels for name in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE)):
            of_claim = next((one for one in types if one.name == labels[INSTANCE_TYPE]), None)
            found += price_of(of_claim, claim) or 0.0
    return found
