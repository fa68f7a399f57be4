"""Pods counted by domain, for one spread constraint or one affinity term of many pods.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologygroup.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.provision.label_requirements import Key, RequirementSet
from moorage.kube import (
    LabelSelector,
    LabelSelectorMatcher,
    LabelSelectorRequirement,
    Object,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.kube.model.node import HOSTNAME

from .pod_shape import Labelled, PodConstraints, untolerated

# ---- which nodes count for a spread constraint -------------------------------------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologynodefilter.go.


def odd(items: Iterable[Hashable]) -> frozenset[Hashable]:
    """Those items that occur an odd number of times: upstream combines hashes so that pairs vanish."""
    return frozenset(item for item, n in Counter(items).items() if n % 2)


class NodeFilter(Struct, eq=False):
    """The nodes that count, by the node selector and tolerations of the pod that a group was made for."""

    alternatives: list[RequirementSet]
    affinity: str
    taints: str
    tolerations: tuple[Toleration, ...]
    names_host: bool
    _known: dict[tuple[tuple[Taint, ...], RequirementSet], bool] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, constraints: PodConstraints, spread: TopologySpreadConstraint) -> NodeFilter:
        terms = [constraints.vocabulary.of_terms(term.match_expressions) for term in constraints.required]
        alternatives = [constraints.node_selector.meet(term) for term in terms] or [constraints.node_selector]
        return cls(
            alternatives,
            spread.node_affinity_policy or "Honor",
            spread.node_taints_policy or "Ignore",
            constraints.tolerations,
            any(HOSTNAME in alternative.by_key for alternative in alternatives),
        )

    @property
    def is_open(self) -> bool:
        """Whether all nodes count."""
        return self.taints != "Honor" and not any(alternative.by_key for alternative in self.alternatives)

    @property
    def identity(self) -> Hashable:
        """What upstream's hash tells apart: of the requirements only the labels that they name."""
        tolerations = [
            (
                toleration.key,
                toleration.operator,
                toleration.value,
                toleration.effect,
                toleration.toleration_seconds or 0,
            )
            for toleration in self.tolerations
        ]
        labels = odd(frozenset(alternative.by_key) for alternative in self.alternatives)
        return labels, self.taints, self.affinity, odd(tolerations)

    def counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        """Whether a node with these taints and requirements counts."""
        known = self._known.get((taints, node))
        if known is None:
            known = self._known[taints, node] = self._counts(taints, node)
        return known

    def _counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        if self.affinity == "Honor" and all(
            node.refusal(alternative, undefined=False) for alternative in self.alternatives
        ):
            return False
        return self.taints != "Honor" or not untolerated(taints, self.tolerations)


# ---- topology group ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class TopologyGroup:
    """What a group counts.

    Attributes
    ----------
    topology_key : str
        As written; the values are those of `key`, its new name.
    known : int
        The domains that pools could make nodes in, as bits.
    """

    kind: str
    topology_key: str
    key: Key
    namespaces: frozenset[str]
    selector: LabelSelector | None
    max_skew: int
    min_domains: int | None
    node_filter: NodeFilter | None
    known: int

    def __post_init__(self) -> None:
        self._matcher = LabelSelectorMatcher(self.selector)
        self._selected: dict[Labelled, bool] = {}

    @cached_property
    def identity(self) -> Hashable:
        """What upstream's hash tells apart; minDomains is no part of it."""
        selector = self.selector
        question: Hashable = None
        if selector is not None:
            expressions = [
                (match_expression.key, match_expression.operator, odd(match_expression.values))
                for match_expression in selector.match_expressions
            ]
            question = frozenset(expressions), frozenset(selector.match_labels.items())
        nodes = self.node_filter.identity if self.node_filter is not None else None
        return self.kind, self.topology_key, self.namespaces, self.max_skew, nodes, question

    def selects(self, pods: Labelled) -> bool:
        selected = self._selected.get(pods)
        if selected is None:
            selected = pods.namespace in self.namespaces and self._matcher.matches(pods.labels)
            self._selected[pods] = selected
        return selected


# ---- spread constraints of the cluster for pods without constraints of their own ---------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/defaultconstraints.go.

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
        service_labels = service.spec.selector
        if service.namespace != pod.namespace or service_labels is None:
            continue
        if service_labels.items() <= pod.metadata.labels.items():
            labels |= service_labels
    expressions: list[LabelSelectorRequirement] = []
    owner = pod.metadata.controller()
    kind = _OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
    owner_object = owners.get((kind, f"{pod.namespace}/{owner.name}")) if owner is not None and kind else None
    if isinstance(owner_object, ReplicationController):
        labels |= owner_object.spec.selector or {}
    elif isinstance(owner_object, ReplicaSet | StatefulSet) and owner_object.spec.selector is not None:
        chosen = owner_object.spec.selector
        expressions += [
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in chosen.match_labels.items()
        ]
        expressions += chosen.match_expressions
    if not labels and not expressions:
        return pod
    selector = LabelSelector(match_labels=labels, match_expressions=tuple(expressions))
    spreads = tuple([replace(constraint, label_selector=selector) for constraint in constraints])
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=spreads))
