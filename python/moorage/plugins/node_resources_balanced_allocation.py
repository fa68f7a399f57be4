"""NodeResourcesBalancedAllocation: prefers nodes with a balanced use of resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage import framework as fwk
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage.framework.plugin import signing
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import Pod

from .node_resources_fit import weighted_resources


class NodeResourcesBalancedAllocation(InTreePlugin, fwk.PreScorePlugin, fwk.ScorePlugin):
    """Score of kube-scheduler v1.36, balanced_allocation.go.

    `Profile.balanced_allocation` selects the formula. Argument: ``resources``, with names and weights.
    """

    name = "NodeResourcesBalancedAllocation"
    default_weight = 1
    default_args = {"resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})}

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        shape = state.shape
        cpu, memory = shape.requests
        requests = {"cpu": cpu, "memory": memory} | shape.other_requests
        scored = weighted_resources(self.args["resources"])
        return None if any(requests.get(name) for name, _ in scored) else fwk.SKIP

    def may_reject(self, shape: Shape) -> bool:
        return False

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {"balanced": weighted_resources(self.args["resources"])}

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.requests(self, pod)
