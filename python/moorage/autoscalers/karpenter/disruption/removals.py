"""What becomes of the pods of nodes that are taken to be removed.

Rules: Karpenter v1.15.0, pkg/controllers/disruption/helpers.go (SimulateScheduling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import msgspec
from msgspec import Struct

from moorage.autoscalers.instance_types.labels import POOL
from moorage.kube import Pod

from ..cluster_view import ClusterView, Removal
from ..new_nodes_result import FinishedClaim
from ..nodes.existing_node import ExistingNode
from ..pods.pod_validation import moves_now
from ..solve import Solver
from .candidates import NodeCandidate
from .claim_conditions import is_fresh

_MOST_ERRORS = 5


class Outcome(Struct):
    """Where pods would go.

    Attributes
    ----------
    claims : list of FinishedClaim
        In the order in which Karpenter returns them.
    moves : dict of str to tuple of str
        By node, the keys of the pods that it takes.
    errors : dict of str to object
        By key, why pods that run would get no node; texts when they are asked for.
    """

    claims: list[FinishedClaim]
    moves: dict[str, tuple[str, ...]]
    errors: dict[str, object] = msgspec.field(default_factory=dict)

    def error_text(self) -> str:
        """Karpenter's text about the first pods that would get no node."""
        text = "not all pods would schedule, "
        for key in islice(sorted(self.errors, key=lambda key: key.split("/")), _MOST_ERRORS):
            text += f"{key} => {self.errors[key]} "
        left = len(self.errors) - _MOST_ERRORS
        return text if left < 0 else f"{text} and {left} other(s)"


class Simulations:
    """Passes without some nodes, over one cluster.

    Parameters
    ----------
    hosts : int
        Names of new nodes are numbered over all passes.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.hosts = 0
        self.count = 0
        self._fresh: dict[float, frozenset[str]] = {}
        self._moving: dict[float, list[Pod]] = {}
        self._pending = {pod.key for pod in view.pending}

    def fresh(self, now: float) -> frozenset[str]:
        """Names of nodes whose pods changed so lately that nothing is moved there."""
        if now not in self._fresh:
            pools = {pool.name: pool for pool in self.view.pools}
            self._fresh[now] = frozenset(
                state.name
                for state in self.view.states
                if not state.is_leaving and is_fresh(pools.get(state.labels.get(POOL, "")), state.claim, now)
            )
        return self._fresh[now]

    def without(self, candidates: Sequence[NodeCandidate], now: float, removal: Removal) -> Outcome:
        """Place the pods of candidates, those that wait, and those of nodes that are being deleted."""
        view = self.view
        if now not in self._moving:
            self._moving[now] = view.moving(now)
        moving = self._moving[now]
        own = [pod for one in candidates for pod in one.pods if moves_now(pod, view.budgets, now)]
        names = frozenset(one.name for one in candidates)
        placed = [*view.pending, *own, *moving]
        self.count += 1
        solver = view.solver(
            placed, replace(removal, nodes=names), frozenset(pod.key for pod in own), self.hosts
        )
        self.hosts = solver.hosts
        return self._outcome(solver, {pod.key for pod in moving})

    def _outcome(self, solver: Solver, moving: set[str]) -> Outcome:
        errors: dict[str, object] = dict(solver.errors)
        claims = []
        for claim in solver.claims:
            finished = self.view.finisher.finished(claim)
            if isinstance(finished, FinishedClaim):
                claims.append(finished)
            else:
                errors |= {one.pod.key: finished for one in claim.pods}
        taking = [node for node in solver.nodes.hosts if node.pods]
        for node in taking:
            if not node.state.is_initialized:
                errors |= {one.pod.key: _unready(node) for one in node.pods if one.pod.key not in moving}
        moves = {node.state.name: tuple([one.pod.key for one in node.pods]) for node in taking}
        left: Mapping[str, object] = {key: why for key, why in errors.items() if key not in self._pending}
        return Outcome(claims, moves, dict(left))


def _unready(node: ExistingNode) -> str:
    state = node.state
    names = [f"nodeclaim/{state.claim.name}"] if state.claim is not None else []
    names += [f"node/{state.node.name}"] if state.node is not None else []
    return f"would schedule against uninitialized {', '.join(names)}"
