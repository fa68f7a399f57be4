"""Spread constraints of the cluster for pods without constraints of their own.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/defaultconstraints.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from moorage.kube import (
    LabelSelector,
    LabelSelectorRequirement,
    Object,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
)

_OWNERS: dict[tuple[str, str], type[Object]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


def with_default_spread(
    pod: Pod,
    constraints: Sequence[TopologySpreadConstraint],
    services: Sequence[Service],
    owners: Mapping[tuple[type[Object], str], Object],
) -> Pod:
    """The pod with the constraints of the cluster, and the selector that kube-scheduler would deduce for it.

    Parameters
    ----------
    owners : mapping
        Controllers by kind and key.
    """
    if not constraints or pod.spec.topology_spread_constraints:
        return pod
    labels: dict[str, str] = {}
    for service in services:
        asked = service.spec.selector
        if service.namespace != pod.namespace or asked is None:
            continue
        if asked.items() <= pod.metadata.labels.items():
            labels |= asked
    expressions: list[LabelSelectorRequirement] = []
    owner = pod.metadata.controller()
    kind = _OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
    found = owners.get((kind, f"{pod.namespace}/{owner.name}")) if owner is not None and kind else None
    if isinstance(found, ReplicationController):
        labels |= found.spec.selector or {}
    elif isinstance(found, ReplicaSet | StatefulSet) and found.spec.selector is not None:
        chosen = found.spec.selector
        expressions += [
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in chosen.match_labels.items()
        ]
        expressions += chosen.match_expressions
    if not labels and not expressions:
        return pod
    selector = LabelSelector(match_labels=labels, match_expressions=tuple(expressions))
    spreads = tuple([replace(one, label_selector=selector) for one in constraints])
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=spreads))
