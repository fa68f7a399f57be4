"""When Karpenter first removes a node that stays now, if nothing but the time changes."""

from __future__ import annotations

from math import inf

from moorage.kube import NodePool
from moorage.kube.go_texts import parse_duration
from moorage.kube.model.cluster import seconds

from .instance_types.labels import POOL
from .karpenter.cluster_view import ClusterView
from .karpenter.disruption.budgets import next_change
from .karpenter.disruption.claim_conditions import consolidatable_at
from .karpenter.nodes.state_nodes import StateNode
from .karpenter.pods.pod_validation import protected_until

MOST_MOMENTS, MOST_CHANGES = 8, 6
"""So many moments are tried at most, and so many of them are those at which budgets change."""


def moments(view: ClusterView, state: StateNode) -> list[float]:
    """Return when what keeps a node may be over, in order (seconds since 1970): consolidateAfter,
    annotations of pods with a duration, and schedules of budgets."""
    now, found = view.situation.now, set[float]()
    pool = next((one for one in view.objects.list(NodePool) if one.name == state.labels.get(POOL)), None)
    if pool is not None and state.claim is not None:
        found.add(consolidatable_at(pool, state.claim))
        moment = now
        for _ in range(MOST_CHANGES):
            moment = next_change(pool, moment)
            found.add(moment)
            if moment == inf:
                break
    if state.node is not None:
        found |= {protected_until(pod) for pod in view.pods_of.get(state.node.name, ())}
    return sorted(one for one in found if now < one < inf)[:MOST_MOMENTS]


def expiry(state: StateNode) -> float:
    """Return when a node expires, whatever budgets say (seconds since 1970); infinite for never."""
    claim = state.claim
    created, after = (claim.metadata.creation_timestamp, claim.spec.expire_after) if claim else (None, None)
    if created is None or after in (None, "Never"):
        return inf
    return seconds(created) + parse_duration(after) / 1e9
