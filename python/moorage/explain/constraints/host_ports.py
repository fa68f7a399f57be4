"""Host ports of a pod: how they are dropped, and who holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from moorage.framework import Plugin, Status
from moorage.framework.plugin.evidence import Evidence, Fact, FindEvidence, Inquiry, Need, Rows
from moorage.objects import Container, Pod, PodSpec
from moorage.objects.model.pod import ContainerPort
from moorage.plugins.node_ports import ANY_IP, HostPort, has_conflict

from .constraint import Constraint, distinct, with_containers

Port = tuple[str, str, int]
"""A host port: address, protocol, number."""


def port_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the host ports of a pod; those of a pod in the network of its host as one constraint, as the API
    server makes container ports host ports as long as it is there."""
    ports = distinct(_host_ports(pod.spec))
    if pod.spec.host_network and ports:
        yield Constraint("host-network", f"({', '.join(map(port_text, ports))})", _without_host_network)
    else:
        for port in ports:
            yield Constraint("host-port", port_text(port), partial(_without_port, port=port))


def _host_ports(spec: PodSpec) -> Iterator[Port]:
    """Yield the host ports that a pod claims: those of containers and sidecars."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield _host_port(port)


def _host_port(port: ContainerPort) -> Port:
    """Return the host port of a container port, with defaults filled in."""
    return port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port


def _without_port(pod: Pod, port: Port) -> Pod:
    return _without_ports(pod, lambda each: _host_port(each) == port)


def _without_host_network(pod: Pod) -> Pod:
    """Take a pod out of the network of its host; the host ports that come with it go, too."""
    if not pod.spec.host_network:
        return pod
    without = _without_ports(pod, lambda each: each.host_port == each.container_port)
    return replace(without, spec=replace(without.spec, host_network=False))


def _without_ports(pod: Pod, is_dropped: Callable[[ContainerPort], bool]) -> Pod:
    """Drop host ports; the container ports stay."""

    def changed(container: Container) -> Container:
        ports = container.ports
        kept = (replace(port, host_port=0, host_ip="") if is_dropped(port) else port for port in ports)
        return replace(container, ports=tuple(kept))

    return with_containers(pod, changed)


def port_text(port: Port) -> str:
    """Return a host port as ``80/TCP``, with its address where it is bound to one."""
    ip, protocol, number = port
    return f"{number}/{protocol}" if ip == ANY_IP else f"{ip}:{number}/{protocol}"


def port_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the host ports of the pod that are not free, and the pods that hold
    them."""
    state, host_network = inquiry.search.state, inquiry.pod.spec.host_network
    names, everywhere = state.symbols.names, state.symbols.intern(ANY_IP)
    wanted = distinct(inquiry.state.shape.ports)

    def told(port: HostPort) -> str:
        return port_text((names[port[0]] or "", names[port[1]] or "", port[2]))

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row in rows.tolist():
            there = [(pod, "") for pod in inquiry.pods_on(row)]
            there += [(pod, ", nominated to the node") for pod in inquiry.nominated_on(row)]
            used = [
                (pod.key, held, nominated)
                for pod, nominated in there
                for held in distinct(state.classes.shape_of(state.classes.intern(pod)).ports)
            ]
            for port in wanted:
                if any(has_conflict(port, held, everywhere) for _, held, _ in used):
                    of = "hostNetwork" if host_network else ""
                    yield Need("host-port", told(port), of, values={"hostNetwork": host_network})
            for key, held, nominated in used:
                if any(has_conflict(port, held, everywhere) for port in wanted):
                    values = {"port": told(held), "isNominated": bool(nominated)}
                    yield Fact("pod", key, f"host port {told(held)}{nominated}", values=values)

    return find
