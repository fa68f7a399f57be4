"""What the objects of an input say of themselves, which each answer about them tells as notes."""

from __future__ import annotations

from moorage.kube import Cluster

from . import selectors, statuses
from .finding import Finding, Ground

_TOLD = (
    statuses.node_conditions,
    statuses.deleted_namespaces,
    statuses.unserved_webhooks,
    statuses.unready_pods,
    statuses.failed_jobs,
    selectors.named_nodes,
    selectors.duplicate_ports,
    statuses.autoscalers,
    statuses.unscaled,
    statuses.awaited_pods,
    statuses.recommendations,
    selectors.selecting_nothing,
    statuses.past_refusals,
)


def told_findings(cluster: Cluster) -> list[Finding]:
    """Return what the objects of a cluster say of themselves, nodes first."""
    ground = Ground(cluster)
    return [*dict.fromkeys(found for function in _TOLD for found in function(ground))]
