"""Host ports: which of them are not free, and which pods hold them."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.cluster.requirements import distinct, port_text
from moorage.engine.framework import Status
from moorage.engine.framework.evidence import Evidence, Fact, FindEvidence, Need, RejectedPod, Rows
from moorage.engine.plugins.node_resources import ANY_IP, HostPort, has_conflict

from ..probe import Probe


def evidence(probe: Probe, inquiry: RejectedPod) -> FindEvidence:
    """Return the function that finds the host ports of the pod that are not free, and the pods that hold
    them."""
    state, host_network = inquiry.search.state, inquiry.pod.spec.host_network
    names, everywhere = state.symbols.names, state.symbols.intern(ANY_IP)
    wanted = distinct(inquiry.state.shape.ports)

    def text_of(port: HostPort) -> str:
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
                    yield Need("host-port", text_of(port), of, values={"hostNetwork": host_network})
            for key, held, nominated in used:
                if any(has_conflict(port, held, everywhere) for port in wanted):
                    values = {"port": text_of(held), "isNominated": bool(nominated)}
                    yield Fact("pod", key, f"host port {text_of(held)}{nominated}", values=values)

    return find
