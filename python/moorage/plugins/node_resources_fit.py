"""NodeResourcesFit: a pod's requests must be free on the node; scores by LeastAllocated."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage.framework.interface import (
    PLACEMENT_SCORE,
    FilterPlugin,
    NativePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)


class NodeResourcesFit(NativePlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """kube-scheduler v1.36, fit.go and least_allocated.go. Reason bits: pods, cpu, memory, then the shape's
    other requests in their order (ephemeral-storage, then by name)."""

    name = "NodeResourcesFit"
    extension_points = (PLACEMENT_SCORE,)
    default_weight = 1
    default_args = {
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}),
        }
    }

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        texts = ["Too many pods", "Insufficient cpu", "Insufficient memory"]
        texts += [f"Insufficient {name}" for name in shape.others]
        return tuple(text for bit, text in enumerate(texts) if bits >> bit & 1)
