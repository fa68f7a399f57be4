"""NodeAffinity: nodeSelector and required node affinity filter, preferred node affinity scores."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage._core.pod_spec import pinned_node
from moorage.framework.cycle_state import CycleState
from moorage.framework.interface import (
    SKIP,
    Code,
    FilterPlugin,
    NativePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Status,
)
from moorage.framework.nodes_view import NodesView
from moorage.objects.pod import Pod


class NodeAffinity(NativePlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """kube-scheduler v1.36, node_affinity.go. The bucket is the sum of the matching preferred weights; its
    constant is 100 * sum / max."""

    name = "NodeAffinity"
    default_weight = 2

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        shape = state.shape
        if not shape.has_node_affinity:
            return SKIP
        if shape.names_conflict:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("pod affinity terms conflict",), self.name)
        pinned = pinned_node(pod.spec)
        if pinned is not None:
            return PreFilterResult(frozenset({pinned}))
        return None if shape.node_names is None else PreFilterResult(shape.node_names)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        shape = state.shape
        if shape.preferred_error:
            return Status(Code.ERROR, (shape.preferred_error,), self.name)
        return None if shape.has_preferred else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't match Pod's node affinity/selector",)
