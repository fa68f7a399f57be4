"""Which nodes a pod asks for, by name and by labels (nodeSelector, required node affinity), and which taints
it tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from moorage._core.base import sets
from moorage._core.base.selectors import tolerates
from moorage._core.state.pod_spec import pinned_node
from moorage.kube import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Taint,
    Toleration,
)
from moorage.kube.model.node import is_of_a_moment

from ..framework.plugin.evidence import Need
from ..plugins.node_affinity import requirement_text
from ..plugins.node_unschedulable import UNSCHEDULABLE
from ..plugins.taint_toleration import REJECTING_EFFECTS
from .constraint import Constraint, changed_field, distinct, of_field, without

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


class Untolerated(Constraint):
    """A taint of nodes that the pod does not tolerate."""


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
