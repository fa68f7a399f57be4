"""What a pod asks for, as constraints that can be dropped and requests that can be lowered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base import sets
from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, PodGates
from moorage._core.base.selectors import tolerates
from moorage._core.state.pod_spec import pinned_node
from moorage.engine.framework.evidence import Need
from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE
from moorage.engine.plugins.node_resources import ANY_IP
from moorage.engine.plugins.pod_topology_spread import HARD
from moorage.kube import (
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Taint,
    Toleration,
)
from moorage.kube.model.meta import LabelSelectorRequirement, whole
from moorage.kube.model.node import REJECTING_EFFECTS, is_of_a_moment
from moorage.kube.model.pod import (
    ContainerPort,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from moorage.kube.model.policy import RuntimeClass

from .amounts import asked_by, quantity_text

# ---- constraint --------------------------------------------------------------------------------------------
# A constraint of a pod, and how fields of its spec are changed to drop one.

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


@dataclass(frozen=True)
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

    @property
    def named(self) -> dict[str, str]:
        """Kind and name, by these words."""
        return {"kind": self.kind, "name": self.name}


# ---- fields of a spec --------------------------------------------------------------------------------------


def of_field(kind: str, name: str, path: str, change: Callable[[Any], Any]) -> Constraint:
    """Return a constraint that is dropped by a change of one field of the spec."""
    return Constraint(kind, name, edit_of(path, change))


def edit_of(path: str, change: Callable[[Any], Any]) -> Callable[[Pod], Pod]:
    """Return what changes one field of the spec of pods."""
    return lambda pod: replace(pod, spec=changed_field(pod.spec, path, change))


def changed_field(obj: StructT, path: str, change: Callable[[Any], Any]) -> StructT:
    """Return a copy of an object with the value at a path of fields changed; the object itself where that
    value is None."""
    name, _, rest = path.partition(".")
    value = getattr(obj, name)
    if value is None:
        return obj
    return replace(obj, **{name: changed_field(value, rest, change) if rest else change(value)})


def distinct(items: Iterable[T]) -> list[T]:
    """Return the items without duplicates; they need not be hashable."""
    kept: list[T] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def without(items: tuple[T, ...], dropped: T) -> tuple[T, ...]:
    """Return the items without one of them."""
    return tuple(item for item in items if item != dropped)


def with_containers(spec: PodSpec, change: Callable[[Container], Container]) -> PodSpec:
    """Return the spec of a pod or a template with its containers and init containers changed."""
    containers, inits = (tuple(map(change, each)) for each in (spec.containers, spec.init_containers))
    return replace(spec, containers=containers, init_containers=inits)


# ---- lowering ----------------------------------------------------------------------------------------------
# The requests of a pod. The request for one resource is lowered in one place of the spec if that suffices,
# otherwise in all places.

OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""The resources of which a container may have a limit above its request (core/v1 validation)."""
LISTS = {"containers": "containers", "init_containers": "initContainers"}
"""Fields of the spec that are lists of containers, and their JSON names."""


def request_constraints(resources: Iterable[str]) -> Iterator[Constraint]:
    """Yield the requests of a pod for resources."""
    for resource in resources:
        yield Constraint("request", resource, partial(drop_request, resource=resource))


class Edit(Struct, frozen=True):
    """A changed request. A limit that must equal the request changes with it.

    Attributes
    ----------
    path : str
        Path of the request in the pod.
    container : str
        Name of the container; "" for the pod-level request.
    """

    path: str
    container: str
    before: str
    after: str


class _Place(Struct, frozen=True):
    """A place of the spec that requests the resource: a container in a list, or (index -1) the pod itself."""

    field: str
    index: int
    container: str
    amount: Quantity

    def path(self, resource: str) -> str:
        """Return the path of the request in the pod, such as
        ``spec.containers[0].resources.requests[cpu]``."""
        at = f"{LISTS[self.field]}[{self.index}]." if self.index >= 0 else ""
        return f"spec.{at}resources.requests[{resource}]"


def effective_request(pod: Pod, resource: str, gates: PodGates) -> int:
    """Return the effective request of a pod for a resource.

    Parameters
    ----------
    gates : PodGates
        On which requests depend.

    Returns
    -------
    int
        Millicores, bytes, or the resource's own unit.
    """
    return whole(resource, asked_by(pod, gates).get(resource, ZERO))


def lower(pod: Pod, resource: str, target: int, gates: PodGates) -> tuple[Pod, list[Edit]] | None:
    """Lower the effective request of a pod to at most `target`.

    If one place of the spec is enough, the one with the largest request is edited. Otherwise all are, in
    proportion. Something has to be left: a pod that asks for nothing is no advice.

    Parameters
    ----------
    target : int
        Millicores, bytes, or the resource's own unit.
    gates : PodGates
        On which requests depend.

    Returns
    -------
    (Pod, list of Edit) or None
        The changed pod and the edits; None if the request cannot be lowered that far.
    """
    of_pod = gates.pod_level_resources
    listed = [place for place in _places(pod, resource) if of_pod or place.field]
    places = sorted(listed, key=lambda place: place.amount, reverse=True)
    excess = asked_by(pod, gates).get(resource, ZERO) - _quantity(resource, target)
    for place in places:
        rest = place.amount - excess
        if rest.sign() > 0:
            lowered = _set(pod, resource, [(place, rest)])
            if _is_enough(lowered, resource, target, gates):
                return lowered, _edits(resource, [(place, rest)])
    values = _in_proportion(pod, resource, places, target, gates)
    if not any(value.sign() for _, value in values):
        return None
    lowered = _set(pod, resource, values)
    return (lowered, _edits(resource, values)) if _is_enough(lowered, resource, target, gates) else None


def drop_request(pod: Pod, resource: str) -> Pod:
    """Set the pod's requests of a resource to 0; its overhead stays."""
    return _set(pod, resource, [(place, ZERO) for place in _places(pod, resource)])


def asked_by_container(pod: Pod, resource: str) -> dict[str, Quantity]:
    """Return what a pod requests of a resource, by container; "" has the pod-level request."""
    return {place.container: place.amount for place in _places(pod, resource)}


def _places(pod: Pod, resource: str) -> Iterator[_Place]:
    """Yield the places of the spec that request the resource."""
    spec = pod.spec
    if spec.resources is not None and resource in spec.resources.requests:
        yield _Place("", -1, "", Quantity(spec.resources.requests[resource]))
    for containers in LISTS:
        for index, container in enumerate(getattr(spec, containers)):
            requests = container.resources.requests
            if resource in requests:
                yield _Place(containers, index, container.name, Quantity(requests[resource]))


def _is_enough(pod: Pod, resource: str, target: int, gates: PodGates) -> bool:
    """Whether the request is low enough and the pod-level request covers those of the containers."""
    pod_level = pod.spec.resources if gates.pod_level_resources else None
    if pod_level is not None and resource in pod_level.requests:
        bare = replace(pod, spec=replace(pod.spec, overhead={}))
        needed = asked_by(bare, gates._replace(pod_level_resources=False)).get(resource, ZERO)
        if needed > Quantity(pod_level.requests[resource]):
            return False
    return effective_request(pod, resource, gates) <= target


def _in_proportion(
    pod: Pod, resource: str, places: list[_Place], target: int, gates: PodGates
) -> list[tuple[_Place, Quantity]]:
    """Scale all requests by the same factor, rounded down. The remainder goes to the first places that can
    use it."""
    fixed = whole(resource, Quantity(pod.spec.overhead.get(resource, 0)))
    factor = Fraction(max(target - fixed, 0), max(effective_request(pod, resource, gates) - fixed, 1))
    values = [(place, _quantity(resource, int(_floor(resource, place.amount) * factor))) for place in places]
    for at, (place, value) in enumerate(values):
        spare = target - effective_request(_set(pod, resource, values), resource, gates)
        more = min(whole(resource, value) + max(spare, 0), _floor(resource, place.amount))
        tried = [*values[:at], (place, _quantity(resource, more)), *values[at + 1 :]]
        if _is_enough(_set(pod, resource, tried), resource, target, gates):
            values = tried
    return values


def _edits(resource: str, values: list[tuple[_Place, Quantity]]) -> list[Edit]:
    """Return the edits that give each place its new request."""
    return [
        Edit(place.path(resource), place.container, str(place.amount), _shown(resource, value))
        for place, value in values
        if value != place.amount
    ]


def _set(pod: Pod, resource: str, values: list[tuple[_Place, Quantity]]) -> Pod:
    """Set requests in the pod's spec."""
    spec = pod.spec
    for place, value in values:
        if place.index < 0 and spec.resources is not None:
            spec = replace(spec, resources=_with_request(spec.resources, resource, value))
        else:
            containers = list(getattr(spec, place.field))
            container = containers[place.index]
            resources = _with_request(container.resources, resource, value)
            containers[place.index] = replace(container, resources=resources)
            spec = replace(spec, **{place.field: tuple(containers)})
    return replace(pod, spec=spec)


def _with_request(requirements: ResourceRequirements, resource: str, value: Quantity) -> ResourceRequirements:
    """Return requirements with another request; a limit that must equal the request changes with it."""
    text = _shown(resource, value)
    limits = requirements.limits
    if resource in limits and resource not in OVERCOMMITTED:
        limits = limits | {resource: text}
    return replace(requirements, requests=requirements.requests | {resource: text}, limits=limits)


# ---- numbers -----------------------------------------------------------------------------------------------


def _quantity(resource: str, amount: int) -> Quantity:
    """Return an amount in integer units."""
    return Quantity(f"{amount}m" if resource == "cpu" else amount)


def _floor(resource: str, quantity: Quantity) -> int:
    """Return the quantity in integer units, rounded down."""
    up = whole(resource, quantity)
    return up - (_quantity(resource, up) > quantity)


def _shown(resource: str, quantity: Quantity) -> str:
    """Return the shortest text of a quantity; fractions of the unit are kept."""
    up = whole(resource, quantity)
    return quantity_text(resource, up) if _quantity(resource, up) == quantity else str(quantity)


# ---- node selection ----------------------------------------------------------------------------------------
# Which nodes a pod asks for, by name and by labels (nodeSelector, required node affinity), and which taints
# it tolerates.

ALL_TERMS = "all required terms"
REQUIRED = "affinity.node_affinity.required"


def selection_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield the node that a pod names, the entries of its nodeSelector, and the requirements of required node
    affinity if that has one term. Several terms count as one constraint, since any of them suffices."""
    spec = pod.spec
    if spec.node_name:
        yield of_field("node-name", spec.node_name, "node_name", lambda name: "")
    for key, value in sorted((spec.node_selector or {}).items()):
        yield of_field("node-selector", f"{key}={value}", "node_selector", partial(_without_key, key=key))
    terms = required_terms(spec)
    if terms is not None and made_for(pod) is not None:
        # The controller has written the term that names the node: to drop it would put the pod elsewhere.
        if len(terms) == 1:
            yield from _of_term(NodeSelectorTerm(match_expressions=terms[0].match_expressions), 0)
    elif terms is not None and len(terms) == 1 and requirements_of(terms[0]):
        yield from _of_term(terms[0], 0)
    elif terms is not None:
        yield _ALL


_ALL = of_field("node-affinity", ALL_TERMS, REQUIRED, lambda required: None)


def finer_constraints(pod: Pod) -> Iterator[Constraint]:
    """Yield constraints that overlap with those of `selection_constraints`: a whole term, or one requirement
    of several terms."""
    terms = required_terms(pod.spec)
    if terms is None or made_for(pod) is not None:
        return
    if len(terms) == 1 and len(requirements_of(terms[0])) > 1:
        yield _ALL
    for at, term in enumerate(terms):
        # A term without requirements matches nothing.
        if len(terms) > 1 and len(requirements_of(term)) > 1:
            yield from _of_term(term, at)


def _of_term(term: NodeSelectorTerm, at: int) -> Iterator[Constraint]:
    """Yield the requirements of one term of required node affinity."""
    for requirement in distinct(requirements_of(term)):
        drop = partial(_without_requirement, at=at, requirement=requirement)
        yield of_field("node-affinity", requirement_text(requirement), REQUIRED, drop)


def required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of required node affinity, of which one has to match; None without it."""
    affinity = spec.affinity and spec.affinity.node_affinity
    return affinity.required.node_selector_terms if affinity and affinity.required is not None else None


def label_requirements(spec: PodSpec) -> Iterator[NodeSelectorRequirement]:
    """Yield the label requirements of required node affinity."""
    for term in required_terms(spec) or ():
        yield from term.match_expressions


def requirements_of(term: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of a term, on labels and on fields."""
    return (*term.match_expressions, *term.match_fields)


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    """Return a requirement on one line: ``zone In [a, b]``."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def without_node_selection(spec: PodSpec) -> PodSpec:
    """Return the spec without nodeSelector and required node affinity."""
    return replace(changed_field(spec, REQUIRED, lambda required: None), node_selector=None)


def _without_key(selector: dict[str, str], key: str) -> dict[str, str]:
    """Return a selector without one key."""
    return {k: v for k, v in selector.items() if k != key}


def _without_requirement(
    required: NodeSelector, at: int, requirement: NodeSelectorRequirement
) -> NodeSelector | None:
    """Return required node affinity without one requirement of the term at an index; None if nothing is
    left."""
    terms = list(required.node_selector_terms)
    terms[at] = NodeSelectorTerm(
        match_expressions=without(terms[at].match_expressions, requirement),
        match_fields=without(terms[at].match_fields, requirement),
    )
    if len(terms) == 1 and not requirements_of(terms[0]):
        return None
    return replace(required, node_selector_terms=tuple(terms))


def made_for(pod: Pod) -> Need | None:
    """Return the node that a DaemonSet's controller has made a pod for; None for other pods."""
    controller, node = pod.metadata.controller(), pinned_node(pod.spec)
    if controller is None or controller.kind != "DaemonSet" or node is None:
        return None
    of = f"daemonset/{controller.name}"
    return Need("node-name", node, words=f"{of} made this pod for node {node}", values={"controller": of})


# ---- taints ------------------------------------------------------------------------------------------------


def untolerated(having: Sequence[sets.Toleration], taints: Iterable[Taint], is_cordoned: bool) -> list[Taint]:
    """Return the taints of a node that keep a pod off that has tolerations. A cordon is `UNSCHEDULABLE`."""
    listed = [Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints]
    if is_cordoned and UNSCHEDULABLE not in listed:
        listed.insert(0, UNSCHEDULABLE)
    rejecting = (taint for taint in listed if taint.effect in REJECTING_EFFECTS)
    return [taint for taint in rejecting if not tolerates(having, taint, True)]


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


# ---- terms -------------------------------------------------------------------------------------------------
# The terms of a pod's spec besides requests and tolerations, each as a constraint that can be dropped.

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

    return replace(pod, spec=with_containers(pod.spec, changed))


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
    return replace(pod, spec=with_containers(replace(pod.spec, resource_claims=claims), changed))


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
