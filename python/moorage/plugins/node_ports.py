"""NodePorts: the host ports that a pod asks for must be free."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage._core.terms import Terms
from moorage.framework.interface import FILTER, PRE_FILTER, SKIP, NativePlugin, Status
from moorage.objects.pod import Pod


class NodePorts(NativePlugin):
    """kube-scheduler v1.36, node_ports.go: ports of containers and sidecars."""

    name = "NodePorts"
    extension_points = (PRE_FILTER, FILTER)

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        return None if shape.ports else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't have free ports for the requested pod ports",)
