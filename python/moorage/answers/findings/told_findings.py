"""What the objects of an input say of themselves, which each answer about them tells as notes."""

from __future__ import annotations

from itertools import chain

from . import selections, statuses
from .finding import Ground, LintFinding

_TOLD = (
    statuses.node_conditions,
    statuses.deleted_namespaces,
    statuses.unserved_webhooks,
    statuses.unready_pods,
    statuses.failed_jobs,
    selections.named_nodes,
    selections.duplicate_ports,
    statuses.autoscalers,
    statuses.unscaled,
    statuses.awaited_pods,
    statuses.recommendations,
    selections.selecting_nothing,
    statuses.past_refusals,
)


def told_findings(ground: Ground) -> list[LintFinding]:
    """Return what the objects of a cluster say of themselves, nodes first."""
    return [*dict.fromkeys(chain.from_iterable(function(ground) for function in _TOLD))]
