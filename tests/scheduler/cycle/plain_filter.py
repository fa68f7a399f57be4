"""Whether a pod may be on a node, as the documentation of Kubernetes says it: for few features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.core.twins.state_check import amount, requests

from moorage.kube import Node, Pod, PodAffinityTerm

On = Mapping[str, list[Pod]]
"""The pods on each node, by its name."""


def host_ports(one: Pod) -> set[tuple[str, int]]:
    """Protocol and number of the host ports that a pod takes, each on all addresses."""
    ports = [port for container in one.spec.containers for port in container.ports]
    return {(port.protocol or "TCP", port.host_port) for port in ports if port.host_port}


def requested(pods: Iterable[Pod]) -> dict[str, int]:
    """Millicores, bytes of memory and number of some pods."""
    there = list(pods)
    total = {name: sum(requests(one).get(name, 0) for one in there) for name in ("cpu", "memory")}
    return total | {"pods": len(there)}


def terms_of(one: Pod, against: bool) -> tuple[PodAffinityTerm, ...]:
    """Required terms of affinity, or of anti-affinity."""
    affinity = one.spec.affinity
    half = affinity and (affinity.pod_anti_affinity if against else affinity.pod_affinity)
    return half.required if half else ()


def named(one: Pod, name: str) -> tuple[str, ...]:
    """The nodes that node affinity names, as a DaemonSet does; by default this one too."""
    half = one.spec.affinity and one.spec.affinity.node_affinity
    return half.required.node_selector_terms[0].match_fields[0].values if half and half.required else (name,)


def selects(term: PodAffinityTerm, one: Pod) -> bool:
    """All terms here select by labels."""
    assert term.label_selector is not None
    return term.label_selector.match_labels.items() <= one.metadata.labels.items()


def around(term: PodAffinityTerm, at: Node, on: On, nodes: Mapping[str, Node]) -> list[Pod]:
    """The pods on the nodes that a term puts together with this one."""
    key, value = term.topology_key, at.metadata.labels.get(term.topology_key)
    if value is None:
        return []
    return [
        pod for name in nodes if nodes[name].metadata.labels.get(key) == value for pod in on.get(name, ())
    ]


def refusal(one: Pod, at: Node, on: On, nodes: Mapping[str, Node], is_over: bool = False) -> str:
    """Why a pod must not be on a node; "" where it may. The pod itself counts nowhere. Spreading is left out;
    affinity too where others were placed since (`is_over`), as it may have been fulfilled only then."""
    on = {name: [pod for pod in pods if pod.metadata.uid != one.metadata.uid] for name, pods in on.items()}
    there = on.get(at.name, [])
    tolerated = {toleration.key for toleration in one.spec.tolerations}
    if at.spec.unschedulable:
        return "unschedulable"
    if any(taint.effect == "NoSchedule" and taint.key not in tolerated for taint in at.spec.taints):
        return "taint"
    if not (one.spec.node_selector or {}).items() <= at.metadata.labels.items():
        return "node selector"
    if at.name not in named(one, at.name):
        return "node affinity"
    if any(host_ports(one) & host_ports(other) for other in there):
        return "ports"
    wanted, taken = requested([one]), requested(there)
    for name, value in wanted.items():
        if value and taken[name] + value > amount(name, at.status.allocatable[name]):
            return name
    if any(selects(term, other) for term in terms_of(one, True) for other in around(term, at, on, nodes)):
        return "anti-affinity"
    for name, pods in on.items():
        for other in pods if name in nodes else ():
            for term in terms_of(other, True):
                value = nodes[name].metadata.labels.get(term.topology_key)
                same = value is not None and at.metadata.labels.get(term.topology_key) == value
                if same and selects(term, one):
                    return "anti-affinity of another"
    return "" if is_over else unfulfilled(one, at, on, nodes)


def unfulfilled(one: Pod, at: Node, on: On, nodes: Mapping[str, Node]) -> str:
    """Whether a pod misses others that it must be with; the first of several that want each other does not.
    Pods here have one term."""
    for term in terms_of(one, False):
        if term.topology_key not in at.metadata.labels:
            return "affinity"
        keyed = [name for name in nodes if term.topology_key in nodes[name].metadata.labels]
        anywhere = any(selects(term, other) for name in keyed for other in on.get(name, ()))
        if any(selects(term, other) for other in around(term, at, on, nodes)):
            continue
        if anywhere or not selects(term, one):
            return "affinity"
    return ""
