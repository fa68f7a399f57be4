"""NodeName: a pod with spec.nodeName fits that node only."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import FilterPlugin


class NodeName(NativePlugin, FilterPlugin):
    """kube-scheduler v1.36, node_name.go."""

    name = "NodeName"

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't match the requested node name",)
