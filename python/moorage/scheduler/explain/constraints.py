"""The constraints of a pod, each of which can be dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from moorage.objects.model.node import Taint
from moorage.objects.model.pod import (
    Container,
    ContainerPort,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)

from .lowering import drop_request
from .shortfalls import (
    ANY_IP,
    Port,
    port_text,
    required_terms,
    requirement_text,
    taint_text,
)

WHOLE = "all required terms"
EVERY_TAINT = Toleration(operator="Exists")
HARD = "DoNotSchedule"
SIDES = {"pod-affinity": "pod_affinity", "pod-anti-affinity": "pod_anti_affinity"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that makes nodes infeasible for a pod.

    Attributes
    ----------
    kind : str
        ``request``, ``taint`` (of nodes: the pod does not tolerate it), ``node-name``, ``node-selector``,
        ``node-affinity``, ``host-port``, ``topology-spread``, ``pod-affinity``, ``pod-anti-affinity``.
    name : str
        Which one: a resource, a taint, a selector entry, a requirement, a term.
    drop : callable
        The pod without it. Equal ones count as one, and go together.
    """

    kind: str
    name: str
    drop: Callable[[Pod], Pod] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


def request_constraints(resources: Iterable[str]) -> Iterator[Constraint]:
    """The requests of the given resources."""
    for resource in resources:
        yield Constraint("request", resource, partial(drop_request, resource=resource))


def taint_constraints(taints: Iterable[Taint | None]) -> Iterator[Constraint]:
    """Taints that the pod does not tolerate (None: all of them). Dropping one adds a toleration."""
    for taint in taints:
        toleration = toleration_of([taint]) if taint else EVERY_TAINT
        name = taint_text(taint) if taint else "every taint"
        yield Constraint("taint", name, partial(tolerate, toleration=toleration))


def term_constraints(pod: Pod) -> Iterator[Constraint]:
    """All other constraints of the pod's spec: node name, selectors, affinity terms, host ports,
    spreading."""
    spec = pod.spec
    if spec.node_name:
        yield _constraint("node-name", spec.node_name, _without_node_name)
    for key, value in sorted((spec.node_selector or {}).items()):
        yield _constraint("node-selector", f"{key}={value}", partial(_without_key, key=key))
    yield from _node_affinity(spec)
    for port in _distinct(host_ports(spec)):
        yield _constraint("host-port", port_text(port), partial(_without_port, port=port))
    for spread in _distinct(spec.topology_spread_constraints):
        if spread.when_unsatisfiable == HARD:
            name = f"{spread.topology_key} (maxSkew {spread.max_skew})"
            yield _constraint("topology-spread", name, partial(_without_spread, spread=spread))
    for kind, side in SIDES.items():
        for term in _distinct(_required(spec, side)):
            drop = partial(_without_pod_term, side=side, term=term)
            yield _constraint(kind, pod_term_text(term), drop)


def _constraint(kind: str, name: str, drop: Callable[[PodSpec], PodSpec]) -> Constraint:
    return Constraint(kind, name, lambda pod: replace(pod, spec=drop(pod.spec)))


def _distinct(items: Iterable[T]) -> list[T]:
    """The items without duplicates; they need not be hashable."""
    found: list[T] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


# ---- tolerations -------------------------------------------------------------------------------------------


def toleration_of(taints: Sequence[Taint]) -> Toleration:
    """The narrowest single toleration of taints that share a key."""
    key, value, effect = taints[0].key, taints[0].value, taints[0].effect
    if len(taints) > 1:
        effect = ""
    if any(taint.value != value for taint in taints):
        return Toleration(key=key, operator="Exists", effect=effect)
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


def tolerate(pod: Pod, toleration: Toleration) -> Pod:
    """The pod with one more toleration."""
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration)))


# ---- selectors and node affinity ---------------------------------------------------------------------------


def _without_node_name(spec: PodSpec) -> PodSpec:
    return replace(spec, node_name="")


def _without_key(spec: PodSpec, key: str) -> PodSpec:
    return replace(spec, node_selector={k: v for k, v in (spec.node_selector or {}).items() if k != key})


def _node_affinity(spec: PodSpec) -> Iterator[Constraint]:
    """The requirements of required node affinity if it has one term; several terms count as one constraint,
    since any of them suffices."""
    terms = required_terms(spec)
    if terms is not None and len(terms) == 1 and _requirements(terms[0]):
        yield from _requirement_constraints(terms[0], 0)
    elif terms is not None:
        yield _constraint("node-affinity", WHOLE, _without_required)


def finer_constraints(pod: Pod) -> Iterator[Constraint]:
    """Constraints that overlap with `term_constraints`: a term as a whole, or one requirement of several
    terms."""
    terms = required_terms(pod.spec)
    if terms is None:
        return
    if len(terms) == 1 and len(_requirements(terms[0])) > 1:
        yield _constraint("node-affinity", WHOLE, _without_required)
    for at, term in enumerate(terms):
        # A term without requirements matches nothing.
        if len(terms) > 1 and len(_requirements(term)) > 1:
            yield from _requirement_constraints(term, at)


def _requirement_constraints(term: NodeSelectorTerm, at: int) -> Iterator[Constraint]:
    for requirement in _distinct(_requirements(term)):
        drop = partial(_without_requirement, at=at, requirement=requirement)
        yield _constraint("node-affinity", requirement_text(requirement), drop)


def _requirements(term: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]:
    return (*term.match_expressions, *term.match_fields)


def has_pod_terms(spec: PodSpec) -> bool:
    """Whether the feasibility of a node depends on other nodes and their pods: hard spreading, required
    terms."""
    hard = any(spread.when_unsatisfiable == HARD for spread in spec.topology_spread_constraints)
    return hard or any(_required(spec, side) for side in SIDES.values())


def without_pod_terms(spec: PodSpec) -> PodSpec:
    """The spec without topology spread constraints and terms about other pods."""
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    return replace(spec, affinity=affinity, topology_spread_constraints=())


def without_node_selection(spec: PodSpec) -> PodSpec:
    """The spec without nodeSelector and required node affinity."""
    return replace(_without_required(spec), node_selector=None)


def _without_required(spec: PodSpec) -> PodSpec:
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return spec
    node_affinity = replace(spec.affinity.node_affinity, required=None)
    return replace(spec, affinity=replace(spec.affinity, node_affinity=node_affinity))


def _without_requirement(spec: PodSpec, at: int, requirement: NodeSelectorRequirement) -> PodSpec:
    affinity = spec.affinity and spec.affinity.node_affinity
    if not spec.affinity or not affinity or affinity.required is None:
        return spec
    terms = list(affinity.required.node_selector_terms)
    terms[at] = NodeSelectorTerm(
        match_expressions=tuple(r for r in terms[at].match_expressions if r != requirement),
        match_fields=tuple(r for r in terms[at].match_fields if r != requirement),
    )
    if len(terms) == 1 and not _requirements(terms[0]):
        return _without_required(spec)
    required = replace(affinity.required, node_selector_terms=tuple(terms))
    return replace(spec, affinity=replace(spec.affinity, node_affinity=replace(affinity, required=required)))


# ---- host ports --------------------------------------------------------------------------------------------


def host_ports(spec: PodSpec) -> Iterator[Port]:
    """The host ports that a pod claims: those of containers and sidecars."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield _host_port(port)


def _host_port(port: ContainerPort) -> Port:
    return port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port


def _without_port(spec: PodSpec, port: Port) -> PodSpec:
    """Drop a host port; with ``hostNetwork`` the container port is removed, as it implies the host port."""

    def changed(container: Container) -> Container:
        ports = (
            replace(each, host_port=0, host_ip="") if _host_port(each) == port else each
            for each in container.ports
            if not (spec.host_network and _host_port(each) == port)
        )
        return replace(container, ports=tuple(ports))

    return replace(
        spec,
        containers=tuple(map(changed, spec.containers)),
        init_containers=tuple(map(changed, spec.init_containers)),
    )


# ---- spreading and other pods ------------------------------------------------------------------------------


def _without_spread(spec: PodSpec, spread: TopologySpreadConstraint) -> PodSpec:
    kept = tuple(each for each in spec.topology_spread_constraints if each != spread)
    return replace(spec, topology_spread_constraints=kept)


def _required(spec: PodSpec, side: str) -> tuple[PodAffinityTerm, ...]:
    held: PodAffinity | None = getattr(spec.affinity, side, None)
    return held.required if held is not None else ()


def topology_keys(spec: PodSpec) -> set[str]:
    """Topology keys of the pod's spread constraints and required pod affinity terms."""
    terms = (term for side in SIDES.values() for term in _required(spec, side))
    spreads = spec.topology_spread_constraints
    return {term.topology_key for term in terms} | {spread.topology_key for spread in spreads}


def _without_pod_term(spec: PodSpec, side: str, term: PodAffinityTerm) -> PodSpec:
    held: PodAffinity | None = getattr(spec.affinity, side, None)
    if spec.affinity is None or held is None:
        return spec
    kept = replace(held, required=tuple(each for each in held.required if each != term))
    return replace(spec, affinity=replace(spec.affinity, **{side: kept}))


def pod_term_text(term: PodAffinityTerm) -> str:
    """A pod affinity term on one line."""
    selector = term.label_selector
    labels = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())] if selector else []
    labels += [
        f"{r.key} {r.operator}" + (f" [{', '.join(r.values)}]" if r.values else "")
        for r in (selector.match_expressions if selector else ())
    ]
    return f"{', '.join(labels) or ('all pods' if selector else 'no pods')} per {term.topology_key}"
