"""NodeAffinity: nodeSelector and required node affinity filter, preferred node affinity scores."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage._core.terms import Terms
from moorage._core.pod_spec import pinned_node
from moorage.framework.interface import (
    FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    SKIP,
    Code,
    NativePlugin,
    Status,
)
from moorage.objects.pod import Pod


class NodeAffinity(NativePlugin):
    """kube-scheduler v1.36, node_affinity.go. The bucket is the sum of the matching preferred weights; its
    constant is 100 * sum / max."""

    name = "NodeAffinity"
    extension_points = (PRE_FILTER, FILTER, PRE_SCORE, SCORE)
    default_weight = 2

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        if not shape.has_node_affinity:
            return SKIP
        if shape.names_conflict:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("pod affinity terms conflict",), self.name)
        pinned = pinned_node(pod.spec)
        return shape.node_names if pinned is None else frozenset({pinned})

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        if shape.preferred_error:
            return Status(Code.ERROR, (shape.preferred_error,), self.name)
        return None if shape.has_preferred else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't match Pod's node affinity/selector",)
