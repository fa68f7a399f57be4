"""NodeUnschedulable: rejects nodes with spec.unschedulable, unless the pod tolerates that taint."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import FilterPlugin


class NodeUnschedulable(NativePlugin, FilterPlugin):
    """kube-scheduler v1.36, node_unschedulable.go."""

    name = "NodeUnschedulable"

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) were unschedulable",)
