"""NodeUnschedulable: rejects nodes with spec.unschedulable, unless the pod tolerates that taint."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage.framework.interface import FILTER, NativePlugin


class NodeUnschedulable(NativePlugin):
    """kube-scheduler v1.36, node_unschedulable.go."""

    name = "NodeUnschedulable"
    extension_points = (FILTER,)

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) were unschedulable",)
