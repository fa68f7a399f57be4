"""NodeResourcesBalancedAllocation: prefers nodes with a balanced use of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import Pod
from moorage.kube.model.resource_claims import DeviceClass

from ..devices.device_state import DeviceState
from ..framework.plugin import signing
from ..framework.profiles.in_core import InTreePlugin
from .node_resources_fit import weighted_resources

PANICS = "kube-scheduler v1.36.2 panics when it scores {}: its DeviceClass {} has selectors"


class NodeResourcesBalancedAllocation(InTreePlugin, fwk.PreScorePlugin, fwk.ScorePlugin):
    """Score of kube-scheduler v1.36, balanced_allocation.go.

    `Release.balance_by_change` selects the formula. Argument: ``resources``, with names and weights.
    """

    name = "NodeResourcesBalancedAllocation"
    default_weight = 1
    default_args = {"resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})}

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        shape = state.shape
        cpu, memory = shape.requests
        requests = {"cpu": cpu, "memory": memory} | shape.other_requests
        scored = [name for name, _ in weighted_resources(self.args["resources"]) if requests.get(name)]
        if not scored:
            return fwk.SKIP
        return self._unscorable(scored, nodes)

    def _unscorable(self, scored: Sequence[str], nodes: fwk.NodesView) -> fwk.Status | None:
        """An error where upstream panics: it has no cache for the expressions of a class of devices."""
        handle = self.handle
        if handle is None or handle.informers is None or not handle.informers.lister(DeviceClass).changes:
            return None
        classes = handle.shared(DeviceState.of).by_resource()
        for name in scored:
            found = classes.get(name)
            if found is None or not found.spec.selectors:
                continue
            if not all(info.allocatable.scalar_resources.get(name) for info in nodes):
                return fwk.as_status(MoorageError(PANICS.format(name, found.name)))
        return None

    def may_reject(self, shape: Shape) -> bool:
        return False

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {"balanced": weighted_resources(self.args["resources"])}

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.requests(self, pod)
