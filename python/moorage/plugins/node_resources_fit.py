"""NodeResourcesFit: a pod's requests must be free on the node; scores by LeastAllocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage._core.pod_class import Shape
from moorage._core.state import ClusterState
from moorage.framework import signing
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import (
    FILTER,
    PLACEMENT_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    SignPlugin,
)
from moorage.objects.pod import Pod


class NodeResourcesFit(NativePlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin):
    """kube-scheduler v1.36, fit.go and least_allocated.go. Reason bits: pods, cpu, memory, then the shape's
    other requests in their order (ephemeral-storage, then by name)."""

    name = "NodeResourcesFit"
    unread = {FILTER: 'error reading "PreFilterNodeResourcesFit"'}
    extension_points = (PLACEMENT_SCORE,)
    default_weight = 1
    default_args = {
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}),
        }
    }

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        strategy = self.args["scoringStrategy"]
        ratio = strategy.get("requestedToCapacityRatio") or {}
        return {
            "fit": weighted_resources(strategy["resources"]),
            "strategy": strategy["type"],
            # Scores of the configuration go to 10.
            "points": [(point["utilization"], 10 * point["score"]) for point in ratio.get("shape") or ()],
            "ignored": self.args.get("ignoredResources") or (),
            "ignored_groups": self.args.get("ignoredResourceGroups") or (),
        }

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        texts = ["Too many pods", "Insufficient cpu", "Insufficient memory"]
        texts += [f"Insufficient {name}" for name in shape.others]
        return tuple(text for bit, text in enumerate(texts) if bits >> bit & 1)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.requests(self, pod)


def weighted_resources(resources: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Resources and weights of a scoring strategy."""
    return [(entry["name"], entry["weight"]) for entry in resources]
