"""NodePorts: the host ports of a pod must be free on its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage import framework as fwk
from moorage._core.state.pod_class import Shape
from moorage.framework.plugin.events import NODE, POD, ActionType, is_live, of_class, on, queue_if
from moorage.framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import Pod

ANY_IP = "0.0.0.0"
Port = tuple[str, str, int]
"""A host port: address, protocol, number."""


@dataclass(frozen=True)
class PortEvidence(Evidence):
    """A host port of the pod that is not free.

    Attributes
    ----------
    port : str
    host_network : bool
        Whether the pod is in the network of its host: the API server makes its container ports host ports.
    """

    kind = "host-port"
    is_need = True
    port: str
    host_network: bool = False

    @property
    def name(self) -> str:
        return self.port

    @property
    def text(self) -> str:
        return f"host port {self.port}" + (" (hostNetwork)" if self.host_network else "")


@dataclass(frozen=True)
class PortHolder(Evidence):
    """A pod that holds a host port.

    Attributes
    ----------
    pod, port : str
        ``namespace/name``, and the port as that pod has it.
    is_nominated : bool
        Whether the pod is nominated to the node, and not there yet.
    """

    kind = "pod"
    pod: str
    port: str
    is_nominated: bool = False

    @property
    def name(self) -> str:
        return self.pod

    @property
    def detail(self) -> str:
        return f"host port {self.port}" + (", nominated to the node" if self.is_nominated else "")


class NodePorts(InTreePlugin, EvidencePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin):
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

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        names = inquiry.search.state.symbols.names

        def ports_of(shape: Shape) -> list[Port]:
            ports = [(names[ip] or "", names[protocol] or "", port) for ip, protocol, port in shape.ports]
            return list(dict.fromkeys(ports))

        wanted = ports_of(inquiry.state.shape)

        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            classes = inquiry.search.state.classes
            for row in rows.tolist():
                there = [(pod, False) for pod in inquiry.pods_on(row)]
                there += [(pod, True) for pod in inquiry.nominated_on(row)]
                used = [
                    (pod.key, port, is_nominated)
                    for pod, is_nominated in there
                    for port in ports_of(classes.shape_of(classes.intern(pod)))
                ]
                for port in wanted:
                    if any(has_conflict(port, other) for _, other, _ in used):
                        yield PortEvidence(port_text(port), inquiry.pod.spec.host_network)
                for key, other, is_nominated in used:
                    if any(has_conflict(port, other) for port in wanted):
                        yield PortHolder(key, port_text(other), is_nominated)

        return find

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(POD, ActionType.DELETE, self.after_pod_deleted), on(NODE, ActionType.ADD)]

    @of_class
    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> fwk.QueueingHint:
        """Queue if the deleted pod used a port that the pod needs.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : None
            The object after the event.
        """
        return queue_if(is_live(old) and self._conflicts(pod, old))

    def _conflicts(self, pod: Pod, other: Pod) -> bool:
        """Whether two pods need the same port, protocol and address; 0.0.0.0 is every address."""
        everywhere = self.required_handle().cache.state.symbols.intern(ANY_IP)
        return any(
            mine[1:] == theirs[1:] and (mine[0] == theirs[0] or everywhere in (mine[0], theirs[0]))
            for mine in self.shape_of(pod).ports
            for theirs in self.shape_of(other).ports
        )


def port_text(port: Port) -> str:
    """Return a host port as ``80/TCP``, with its address where it is bound to one."""
    ip, protocol, number = port
    return f"{number}/{protocol}" if ip == ANY_IP else f"{ip}:{number}/{protocol}"


def has_conflict(one: Port, other: Port) -> bool:
    """Whether two host ports conflict on one node (kube-scheduler v1.36, framework/types.go
    HostPortInfo.CheckConflict).

    Parameters
    ----------
    one, other : (str, str, int)
        Address, protocol and number.
    """
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))
