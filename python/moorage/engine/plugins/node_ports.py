"""NodePorts: the host ports of a pod must be free on its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.kube import Pod

from ..framework.plugin.events import NODE, POD, ActionType, is_live, of_class, on, queue_if
from ..framework.profiles.in_core import InTreePlugin

ANY_IP = "0.0.0.0"
HostPort = tuple[int, int, int]
"""A host port: the symbols of its address and protocol, and its number."""


class NodePorts(InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_ports.go, for ports of containers and sidecars."""

    name = "NodePorts"
    reason_texts = ("node(s) didn't have free ports for the requested pod ports",)
    missing_state_text = {fwk.FilterPlugin: 'reading "PreFilterNodePorts"'}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if state.shape.ports else fwk.SKIP

    def may_reject(self, shape: Shape) -> bool:
        return False

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        """Return the numbers of all host ports, including those of init containers."""
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"hostPorts": sorted({port.host_port for item in containers for port in item.ports} - {0})}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(POD, ActionType.DELETE, self.after_pod_deleted), on(NODE, ActionType.ADD)]

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if the deleted pod used a port that the pod needs."""
        return queue_if(is_live(old) and self._conflicts(pod, old))

    def _conflicts(self, pod: Pod, other: Pod) -> bool:
        """Whether two pods need the same port, protocol and address."""
        everywhere = self.required_handle().cache.state.symbols.intern(ANY_IP)
        pairs = product(self.shape_of(pod).ports, self.shape_of(other).ports)
        return any(has_conflict(*ports, everywhere) for ports in pairs)


def has_conflict(one: HostPort, other: HostPort, everywhere: int) -> bool:
    """Whether two host ports conflict on one node; `everywhere` is the symbol of `ANY_IP` (kube-scheduler
    v1.36, framework/types.go HostPortInfo.CheckConflict)."""
    return one[1:] == other[1:] and (one[0] == other[0] or everywhere in (one[0], other[0]))
