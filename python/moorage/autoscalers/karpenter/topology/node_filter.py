"""Which nodes count for a spread constraint.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/topologynodefilter.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

import msgspec
from msgspec import Struct

from moorage.kube import Taint, Toleration, TopologySpreadConstraint
from moorage.kube.model.node import HOSTNAME

from ..pods.pod_shape import PodShape, untolerated
from ..requirements.requirement_set import RequirementSet


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
    def of(cls, shape: PodShape, spread: TopologySpreadConstraint) -> NodeFilter:
        terms = [shape.vocabulary.of_terms(term.match_expressions) for term in shape.required]
        alternatives = [shape.node_selector.meet(term) for term in terms] or [shape.node_selector]
        return cls(
            alternatives,
            spread.node_affinity_policy or "Honor",
            spread.node_taints_policy or "Ignore",
            shape.tolerations,
            any(HOSTNAME in one.by_key for one in alternatives),
        )

    @property
    def is_open(self) -> bool:
        """Whether all nodes count."""
        return self.taints != "Honor" and not any(one.by_key for one in self.alternatives)

    @property
    def identity(self) -> Hashable:
        """What upstream's hash tells apart: of the requirements only the labels that they name."""
        tolerations = [
            (one.key, one.operator, one.value, one.effect, one.toleration_seconds or 0)
            for one in self.tolerations
        ]
        labels = odd(frozenset(one.by_key) for one in self.alternatives)
        return labels, self.taints, self.affinity, odd(tolerations)

    def counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        """Whether a node with these taints and requirements counts."""
        known = self._known.get((taints, node))
        if known is None:
            known = self._known[taints, node] = self._counts(taints, node)
        return known

    def _counts(self, taints: tuple[Taint, ...], node: RequirementSet) -> bool:
        if self.affinity == "Honor" and all(node.refusal(one, undefined=False) for one in self.alternatives):
            return False
        return self.taints != "Honor" or not untolerated(taints, self.tolerations)
