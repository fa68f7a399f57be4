"""What nodes a pod asks for: by name, by labels (nodeSelector, required node affinity), by features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from moorage._core.state.pod_spec import pinned_node
from moorage.framework import Plugin, Status
from moorage.framework.plugin.evidence import Evidence, FindEvidence, Inquiry, Need, Rows
from moorage.objects import (
    Node,
    NodeSelector,
    NodeSelectorMatcher,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
)
from moorage.plugins.node_affinity import NodeAffinity, requirement_text

from .constraint import Constraint, changed_field, distinct, of_field, without

ALL_TERMS = "all required terms"
NO_TERMS = "terms (required node affinity has none)"
EMPTY_TERM = "(an empty term matches no node)"
BY_PROFILE = "addedAffinity of the profile"
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
    elif terms is not None and len(terms) == 1 and _requirements(terms[0]):
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
    if len(terms) == 1 and len(_requirements(terms[0])) > 1:
        yield _ALL
    for at, term in enumerate(terms):
        # A term without requirements matches nothing.
        if len(terms) > 1 and len(_requirements(term)) > 1:
            yield from _of_term(term, at)


def _of_term(term: NodeSelectorTerm, at: int) -> Iterator[Constraint]:
    """Yield the requirements of one term of required node affinity."""
    for requirement in distinct(_requirements(term)):
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


def _requirements(term: NodeSelectorTerm) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of a term, on labels and on fields."""
    return (*term.match_expressions, *term.match_fields)


def without_node_selection(spec: PodSpec) -> PodSpec:
    """Return the spec without nodeSelector and required node affinity."""
    return structs.replace(changed_field(spec, REQUIRED, lambda required: None), node_selector=None)


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
    if len(terms) == 1 and not _requirements(terms[0]):
        return None
    return structs.replace(required, node_selector_terms=tuple(terms))


# ---- evidence ----------------------------------------------------------------------------------------------


def name_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that says which node a pod names."""
    return lambda rows, status: [Need("node-name", inquiry.pod.spec.node_name, nodes=len(rows))]


def made_for(pod: Pod) -> Need | None:
    """Return the node that a DaemonSet's controller has made a pod for; None for other pods."""
    controller, node = pod.metadata.controller(), pinned_node(pod.spec)
    if controller is None or controller.kind != "DaemonSet" or node is None:
        return None
    of = f"daemonset/{controller.name}"
    return Need("node-name", node, words=f"{of} made this pod for node {node}", values={"controller": of})


def selection_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the requirements on labels and names that nodes do not meet."""
    selector, only = inquiry.pod.spec.node_selector or {}, made_for(inquiry.pod)
    plugin = plugins[NodeAffinity.name]
    added = plugin.added.required if isinstance(plugin, NodeAffinity) and plugin.added else None
    own, enforced = required_terms(inquiry.pod.spec), None if added is None else added.node_selector_terms
    terms = [*(own or ()), *(enforced or ())]
    keys = {*selector, *(requirement.key for term in terms for requirement in term.match_expressions)}
    reads_names = any(term.match_fields for term in terms)
    unmet_own, unmet_enforced = _unmet(own), _unmet(enforced)

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        for row, nodes in ((row, 1) for row in rows.tolist()) if reads_names else inquiry.alike(rows, keys):
            node = inquiry.node(row)
            labels = node.metadata.labels
            unmet = [f"{key}={value}" for key, value in selector.items() if labels.get(key) != value]
            unmet += unmet_own(node)
            if only is not None and unmet:
                yield replace(only, nodes=nodes)
            else:
                for text in dict.fromkeys(unmet):
                    yield Need("label", text, values={"byProfile": False}, nodes=nodes)
            for text in dict.fromkeys(unmet_enforced(node)):
                yield Need("label", text, BY_PROFILE, values={"byProfile": True}, nodes=nodes)

    return find


def feature_evidence(plugins: Mapping[str, Plugin], inquiry: Inquiry) -> FindEvidence:
    """Return the function that finds the features that nodes do not declare."""

    def find(rows: Rows, status: Status) -> Iterator[Evidence]:
        declared = Counter(inquiry.node(row).status.declared_features for row in rows.tolist())
        for features, nodes in declared.items():
            for feature in inquiry.state.shape.features:
                if feature not in features:
                    yield Need("feature", feature, nodes=nodes)

    return find


def _unmet(terms: Sequence[NodeSelectorTerm] | None) -> Callable[[Node], list[str]]:
    """Return the function that finds the requirements that a node does not meet; of several terms, those of
    the term with the fewest."""
    matchers = None if terms is None else [_matchers(term) for term in terms]

    def unmet(node: Node) -> list[str]:
        if matchers is None:
            return []
        lacking = [[text for text, matcher in term if not matcher.matches(node)] for term in matchers]
        return min(lacking, key=len, default=[NO_TERMS])

    return unmet


def _matchers(term: NodeSelectorTerm) -> list[tuple[str, NodeSelectorMatcher]]:
    """Return the requirements of a term, each on its own: its text, and what it matches."""
    alone = [NodeSelectorTerm(match_expressions=(requirement,)) for requirement in term.match_expressions]
    alone += [NodeSelectorTerm(match_fields=(requirement,)) for requirement in term.match_fields]
    if not alone:
        return [(EMPTY_TERM, NodeSelectorMatcher(NodeSelector()))]
    matchers = [NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,))) for term in alone]
    return list(zip(map(requirement_text, _requirements(term)), matchers, strict=True))
