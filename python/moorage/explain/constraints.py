"""The constraints of a pod: how each is dropped, and sets of them that cannot be satisfied together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.changes.node_copies import is_of_a_moment
from moorage.objects import Container, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint
from moorage.objects.model.admission_policies import RuntimeClass
from moorage.objects.model.pod import (
    ContainerPort,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.plugins.node_affinity import made_for, required_terms, requirement_text
from moorage.plugins.node_ports import ANY_IP, Port, port_text
from moorage.plugins.pod_topology_spread import HARD
from moorage.plugins.taint_toleration import taint_text

from .lowering import drop_request
from .probe import Probe

ALL_TERMS = "all required terms"
EVERY_TAINT = Toleration(operator="Exists")
REQUIRED = "affinity.node_affinity.required"
POD_TERMS = {
    "pod-affinity": "affinity.pod_affinity.required",
    "pod-anti-affinity": "affinity.pod_anti_affinity.required",
}
TOPOLOGY_SPREAD, SPREADS = "topology-spread", "topology_spread_constraints"
MOST_TAINTS = 32
"""Maximum number of taint constraints; more different taints count as one."""

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that makes nodes infeasible for a pod.

    Attributes
    ----------
    kind : str
        ``request``, ``taint`` (of nodes: the pod does not tolerate it), ``node-name``, ``node-selector``,
        ``node-affinity``, ``host-port``, ``host-network``, ``topology-spread``, ``pod-affinity``,
        ``pod-anti-affinity``, ``claim``, ``runtime-class``.
    name : str
        Which one: a resource, a taint, a selector entry, a requirement, a term.
    drop : callable
        The pod without it. Equal constraints count as one and are dropped together.
    """

    kind: str
    name: str
    drop: Callable[[Pod], Pod] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The constraint in words: kind and name."""
        return f"{self.kind} {self.name}"


def request_constraints(resources: Iterable[str]) -> Iterator[Constraint]:
    """Yield the constraints that requests of resources are.

    Parameters
    ----------
    resources : iterable of str
        Names of the requested resources.
    """
    for resource in resources:
        yield Constraint("request", resource, partial(drop_request, resource=resource))


def taint_constraints(probe: Probe) -> Iterator[Constraint]:
    """Yield the taints of nodes that the pod does not tolerate, those of the most nodes first. To drop such a
    constraint adds a toleration.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.
    """
    nodes = probe.nodes(probe.rows())
    counts = Counter(taint for node in nodes for taint in probe.untolerated(node))
    if len(counts) > MOST_TAINTS:
        yield Constraint("taint", "every taint", partial(tolerate, toleration=EVERY_TAINT))
        return
    for taint, _ in counts.most_common():
        yield Constraint("taint", taint_text(taint), partial(tolerate, toleration=toleration_of([taint])))


def term_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the constraints in the pod's spec besides requests and taints: node name, selectors, affinity
    terms, host ports, spreading, resource claims."""
    spec = pod.spec
    if spec.node_name:
        yield _constraint("node-name", spec.node_name, "node_name", lambda name: "")
    for key, value in sorted((spec.node_selector or {}).items()):
        yield _constraint("node-selector", f"{key}={value}", "node_selector", partial(_without_key, key=key))
    yield from _node_affinity(pod)
    ports = _distinct(host_ports(spec))
    if spec.host_network and ports:
        # The API server makes container ports host ports as long as the pod is in the network of its host.
        yield Constraint("host-network", f"({', '.join(map(port_text, ports))})", _without_host_network)
    else:
        for port in ports:
            yield Constraint("host-port", port_text(port), partial(_without_port, port=port))
    for spread in _distinct(hard_spreads(spec)):
        yield _constraint(TOPOLOGY_SPREAD, spread_text(spread), SPREADS, partial(_without, dropped=spread))
    for kind, path in POD_TERMS.items():
        for term in _distinct(pod_terms(spec, path)):
            yield _constraint(kind, pod_term_text(term), path, partial(_without, dropped=term))
    for use in spec.resource_claims:
        yield Constraint("claim", use.name, partial(_without_claim, dropped=use))


def finer_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield constraints that overlap with those of `term_constraints`: a whole term, or one requirement of
    several terms."""
    terms = required_terms(pod.spec)
    if terms is None or made_for(pod) is not None:
        return
    if len(terms) == 1 and len(_requirements(terms[0])) > 1:
        yield _constraint("node-affinity", ALL_TERMS, REQUIRED, lambda required: None)
    for at, term in enumerate(terms):
        # A term without requirements matches nothing.
        if len(terms) > 1 and len(_requirements(term)) > 1:
            yield from _requirement_constraints(term, at)


def _constraint(kind: str, name: str, path: str, change: Callable[[Any], Any]) -> Constraint:
    """Return a constraint that is dropped by a change of one field of the spec."""
    return Constraint(kind, name, lambda pod: replace(pod, spec=_changed(pod.spec, path, change)))


def _changed(obj: StructT, path: str, change: Callable[[Any], Any]) -> StructT:
    """Return a copy of an object with the value at a path of fields changed; the object itself where that
    value is None."""
    name, _, rest = path.partition(".")
    value = getattr(obj, name)
    if value is None:
        return obj
    return replace(obj, **{name: _changed(value, rest, change) if rest else change(value)})


def _distinct(items: Iterable[T]) -> list[T]:
    """Return the items without duplicates; they need not be hashable."""
    distinct: list[T] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return distinct


def _without(items: tuple[T, ...], dropped: T) -> tuple[T, ...]:
    """Return the items without one of them."""
    return tuple(item for item in items if item != dropped)


def changed_term(pod: Pod, path: str, term: T, changed: T) -> Pod:
    """Return a pod with another item in place of one of a list of its spec.

    Parameters
    ----------
    path : str
        Of fields, to the list.
    """

    def change(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(changed if item == term else item for item in items)

    return replace(pod, spec=_changed(pod.spec, path, change))


# ---- tolerations -------------------------------------------------------------------------------------------


def toleration_of(taints: Sequence[Taint]) -> Toleration:
    """Return the narrowest single toleration of taints that share a key; of one of a moment, the value of
    which may be a time, for any value."""
    key, value, effect = taints[0].key, taints[0].value, taints[0].effect
    if len(taints) > 1:
        effect = ""
    if any(taint.value != value for taint in taints) or (value and is_of_a_moment(taints[0])):
        return Toleration(key=key, operator="Exists", effect=effect)
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


def tolerate(pod: Pod, toleration: Toleration) -> Pod:
    """Return the pod with one more toleration."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))


# ---- selectors and node affinity ---------------------------------------------------------------------------


def without_node_selection(spec: PodSpec) -> PodSpec:
    """Return the spec without nodeSelector and required node affinity."""
    return replace(_changed(spec, REQUIRED, lambda required: None), node_selector=None)


def _without_key(selector: dict[str, str], key: str) -> dict[str, str]:
    """Return a selector without one key."""
    return {k: v for k, v in selector.items() if k != key}


def _node_affinity(pod: Pod) -> Iterator[Constraint]:
    """Yield the requirements of required node affinity if it has one term. Several terms count as one
    constraint, since any of them suffices."""
    terms = required_terms(pod.spec)
    if terms is not None and made_for(pod) is not None:
        # The controller has written the term that names the node: to drop it would put the pod elsewhere.
        by_labels = [one for term in terms for one in term.match_expressions]
        if len(terms) == 1:
            yield from _requirement_constraints(NodeSelectorTerm(match_expressions=tuple(by_labels)), 0)
    elif terms is not None and len(terms) == 1 and _requirements(terms[0]):
        yield from _requirement_constraints(terms[0], 0)
    elif terms is not None:
        yield _constraint("node-affinity", ALL_TERMS, REQUIRED, lambda required: None)


def _requirement_constraints(term: NodeSelectorTerm, at: int) -> Iterator[Constraint]:
    """Yield the requirements of one term of required node affinity."""
    for requirement in _distinct(_requirements(term)):
        drop = partial(_without_requirement, at=at, requirement=requirement)
        yield _constraint("node-affinity", requirement_text(requirement), REQUIRED, drop)


def _requirements(term: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of a term, on labels and on fields."""
    return (*term.match_expressions, *term.match_fields)


def _without_requirement(
    required: NodeSelector, at: int, requirement: NodeSelectorRequirement
) -> NodeSelector | None:
    """Return required node affinity without one requirement of the term at an index; None if nothing is
    left."""
    terms = list(required.node_selector_terms)
    terms[at] = NodeSelectorTerm(
        match_expressions=_without(terms[at].match_expressions, requirement),
        match_fields=_without(terms[at].match_fields, requirement),
    )
    if len(terms) == 1 and not _requirements(terms[0]):
        return None
    return replace(required, node_selector_terms=tuple(terms))


# ---- host ports --------------------------------------------------------------------------------------------


def host_ports(spec: PodSpec) -> Iterator[Port]:
    """Return the host ports that a pod claims: those of containers and sidecars."""
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
        ports = (replace(one, host_port=0, host_ip="") if is_dropped(one) else one for one in container.ports)
        return replace(container, ports=tuple(ports))

    return _with_containers(pod, changed)


def _with_containers(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    spec = pod.spec
    containers, inits = (tuple(map(change, each)) for each in (spec.containers, spec.init_containers))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=inits))


# ---- what a pod names -------------------------------------------------------------------------------------


def _without_claim(pod: Pod, dropped: PodResourceClaim) -> Pod:
    """Drop a claim for devices, and the containers' use of it."""

    def changed(container: Container) -> Container:
        claims = tuple(one for one in container.resources.claims if one.name != dropped.name)
        return replace(container, resources=replace(container.resources, claims=claims))

    claims = _without(pod.spec.resource_claims, dropped)
    return _with_containers(replace(pod, spec=replace(pod.spec, resource_claims=claims)), changed)


def runtime_class_constraints(probe: Probe) -> Iterator[Constraint]:
    """Yield the constraint that the pod's runtime class is: its overhead, and the nodes that it is for."""
    found = probe.runtime_class
    if found is not None:
        yield Constraint("runtime-class", found.name, partial(_without_runtime_class, runtime_class=found))


def _without_runtime_class(pod: Pod, runtime_class: RuntimeClass) -> Pod:
    spec, scheduling = pod.spec, runtime_class.scheduling
    if spec.runtime_class_name != runtime_class.name:
        return pod
    selector, tolerations = spec.node_selector, spec.tolerations
    if scheduling is not None:
        selector = {
            key: value for key, value in (selector or {}).items() if key not in scheduling.node_selector
        }
        tolerations = tuple(one for one in tolerations if one not in scheduling.tolerations)
    fields = {"node_selector": selector, "tolerations": tolerations}
    return replace(pod, spec=replace(spec, runtime_class_name=None, overhead={}, **fields))


# ---- spreading and other pods ------------------------------------------------------------------------------


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


# ---- conflicts ---------------------------------------------------------------------------------------------


def find_conflicts(probe: Probe) -> tuple[list[list[Constraint]], str]:
    """Find disjoint sets of constraints, each of which alone makes all nodes infeasible and is minimal by
    inclusion. The pod fits once all of these constraints are dropped.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.

    Returns
    -------
    blocked : str
        FitError text of the pod without any constraint, if it fits nowhere even then; there are no conflicts
        in that case.
    """
    every = pod_constraints(probe)
    bare = _with_only(probe, every, [])
    if not probe.count_feasible(bare):
        return [], probe.fit_error(bare)
    conflicts: list[list[Constraint]] = []
    remaining = every
    while not probe.count_feasible(_with_only(probe, every, remaining)):
        conflict = _minimal(probe, every, remaining)
        conflicts.append(conflict)
        remaining = [constraint for constraint in remaining if constraint not in conflict]
    return conflicts, ""


def pod_constraints(probe: Probe) -> list[Constraint]:
    """Return all constraints of the pod, without overlaps.

    Parameters
    ----------
    probe : Probe
        Of the pod that fits nowhere.
    """
    return [
        *request_constraints(probe.resources),
        *taint_constraints(probe),
        *term_constraints(probe.pod),
    ]


def _with_only(probe: Probe, every: list[Constraint], only: list[Constraint]) -> Pod:
    """Return the pod with only these constraints."""
    pod = probe.pod
    for constraint in every:
        if constraint not in only:
            pod = constraint.drop(pod)
    return pod


def _minimal(probe: Probe, every: list[Constraint], conflict: list[Constraint]) -> list[Constraint]:
    """Return a subset of a conflict that makes all nodes infeasible and is minimal by inclusion."""
    for constraint in conflict:
        if not probe.count_feasible(_with_only(probe, every, [constraint])):
            return [constraint]
    size = 0
    while size != len(conflict):  # one pass, unless dropping a constraint makes another one stricter
        size = len(conflict)
        for constraint in conflict:
            fewer = [each for each in conflict if each != constraint]
            if not probe.count_feasible(_with_only(probe, every, fewer)):
                conflict = fewer
    return conflict


def requirements(spec: PodSpec) -> Iterator[NodeSelectorRequirement]:
    """Yield the label requirements of required node affinity."""
    for term in required_terms(spec) or ():
        yield from term.match_expressions
