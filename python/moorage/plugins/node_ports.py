"""NodePorts: the host ports that a pod asks for must be free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.pod_class import Shape
from moorage.framework.cycle_state import CycleState
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import (
    FILTER,
    SKIP,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    SignPlugin,
    Status,
)
from moorage.framework.nodes_view import NodesView
from moorage.objects.pod import Pod


class NodePorts(NativePlugin, PreFilterPlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, node_ports.go: ports of containers and sidecars."""

    name = "NodePorts"
    unread = {FILTER: 'reading "PreFilterNodePorts"'}

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        return None if state.shape.ports else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't have free ports for the requested pod ports",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        """All host ports by their numbers alone, those of init containers too."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"hostPorts": sorted({port.host_port for one in containers for port in one.ports} - {0})}
