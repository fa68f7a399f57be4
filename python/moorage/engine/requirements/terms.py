"""The terms of a pod's spec besides requests and tolerations, each as a constraint that can be dropped. Terms
about nodes are in `node_selection.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from moorage.kube import Container, Pod, PodSpec
from moorage.kube.model.admission_policies import RuntimeClass
from moorage.kube.model.pod import (
    ContainerPort,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    TopologySpreadConstraint,
)

from ..plugins.node_affinity import requirement_text
from ..plugins.node_ports import ANY_IP
from ..plugins.pod_topology_spread import HARD
from .constraint import Constraint, distinct, edit_of, of_field, with_containers, without
from .node_selection import selection_constraints

T = TypeVar("T")

SPREADS = "topology_spread_constraints"
POD_TERMS = {
    "pod-affinity": "affinity.pod_affinity.required",
    "pod-anti-affinity": "affinity.pod_anti_affinity.required",
}
Port = tuple[str, str, int]
"""A host port: address, protocol, number."""


def term_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the constraints in the pod's spec besides requests and taints."""
    for constraints_of in (selection_constraints, port_constraints, other_pod_constraints, claim_constraints):
        yield from constraints_of(pod)


# ---- other pods --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread(Constraint):
    """A hard spread constraint."""

    spread: TopologySpreadConstraint = field(kw_only=True, compare=False, repr=False)


def other_pod_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the hard spread constraints of a pod, and its required terms about other pods."""
    for spread in distinct(hard_spreads(pod.spec)):
        drop = edit_of(SPREADS, partial(without, dropped=spread))
        yield Spread("topology-spread", spread_text(spread), drop, spread=spread)
    for kind, path in POD_TERMS.items():
        for term in distinct(pod_terms(pod.spec, path)):
            yield of_field(kind, pod_term_text(term), path, partial(without, dropped=term))


def has_pod_terms(spec: PodSpec) -> bool:
    """Whether the feasibility of a node depends on other nodes and their pods: hard spreading, required
    terms."""
    return bool(hard_spreads(spec)) or any(pod_terms(spec, path) for path in POD_TERMS.values())


def hard_spreads(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the spread constraints that keep a pod off nodes."""
    return [spread for spread in spec.topology_spread_constraints if spread.when_unsatisfiable == HARD]


def spread_text(spread: TopologySpreadConstraint) -> str:
    """Return what names a spread constraint in texts."""
    return f"{spread.topology_key} (maxSkew {spread.max_skew})"


def without_pod_terms(spec: PodSpec) -> PodSpec:
    """Return the spec without topology spread constraints and terms about other pods."""
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    return replace(spec, affinity=affinity, topology_spread_constraints=())


def topology_keys(spec: PodSpec) -> set[str]:
    """Return the topology keys of the pod's spread constraints and required pod affinity terms."""
    terms = (term for path in POD_TERMS.values() for term in pod_terms(spec, path))
    spreads = spec.topology_spread_constraints
    return {term.topology_key for term in terms} | {spread.topology_key for spread in spreads}


def pod_terms(spec: PodSpec, path: str) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms of pod affinity or anti-affinity.

    Parameters
    ----------
    path : str
        A value of `POD_TERMS`.
    """
    affinity: PodAffinity | None = getattr(spec.affinity, path.split(".")[1], None)
    return affinity.required if affinity is not None else ()


def pod_term_text(term: PodAffinityTerm) -> str:
    """Return a pod affinity term on one line."""
    selector = term.label_selector
    labels = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())] if selector else []
    labels += map(requirement_text, selector.match_expressions if selector else ())
    return f"{', '.join(labels) or ('all pods' if selector else 'no pods')} per {term.topology_key}"


def changed_term(pod: Pod, path: str, term: T, changed: T) -> Pod:
    """Return a pod with another item in place of one of a list of its spec.

    Parameters
    ----------
    path : str
        Of fields, to the list.
    """

    def change(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(changed if item == term else item for item in items)

    return edit_of(path, change)(pod)


# ---- host ports --------------------------------------------------------------------------------------------


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


# ---- named objects -----------------------------------------------------------------------------------------


def claim_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the claims for devices that a pod uses."""
    for use in pod.spec.resource_claims:
        yield Constraint("claim", use.name, partial(_without_claim, dropped=use))


def _without_claim(pod: Pod, dropped: PodResourceClaim) -> Pod:
    """Drop a claim for devices, and the containers' use of it."""

    def changed(container: Container) -> Container:
        claims = tuple(claim for claim in container.resources.claims if claim.name != dropped.name)
        return replace(container, resources=replace(container.resources, claims=claims))

    claims = without(pod.spec.resource_claims, dropped)
    return with_containers(replace(pod, spec=replace(pod.spec, resource_claims=claims)), changed)


def runtime_class_constraints(named: RuntimeClass | None) -> Iterator[Constraint]:
    """Yield the constraint that the runtime class of a pod is: its overhead, and the nodes that it is for."""
    if named is not None:
        yield Constraint("runtime-class", named.name, partial(_without_runtime_class, runtime_class=named))


def _without_runtime_class(pod: Pod, runtime_class: RuntimeClass) -> Pod:
    spec, scheduling = pod.spec, runtime_class.scheduling
    if spec.runtime_class_name != runtime_class.name:
        return pod
    selector, tolerations = spec.node_selector, spec.tolerations
    if scheduling is not None:
        selector = {
            key: value for key, value in (selector or {}).items() if key not in scheduling.node_selector
        }
        tolerations = tuple(each for each in tolerations if each not in scheduling.tolerations)
    fields = {"node_selector": selector, "tolerations": tolerations}
    return replace(pod, spec=replace(spec, runtime_class_name=None, overhead={}, **fields))
