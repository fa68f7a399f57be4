"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage._core.terms import Terms
from moorage.framework.interface import PRE_SCORE, SCORE, SKIP, NativePlugin, Status
from moorage.objects.pod import Pod


class NodeResourcesBalancedAllocation(NativePlugin):
    """kube-scheduler v1.36, balanced_allocation.go; `Profile.balanced_allocation` chooses the formula."""

    name = "NodeResourcesBalancedAllocation"
    extension_points = (PRE_SCORE, SCORE)
    default_weight = 1
    default_args = {"resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})}

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        return SKIP if shape.is_best_effort else None
