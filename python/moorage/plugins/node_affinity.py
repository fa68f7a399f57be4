"""NodeAffinity: nodeSelector and node affinity of the pod, and addedAffinity of the profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from moorage import framework as fwk
from moorage._core.base.selectors import field_requirement_error, pod_matches_node_selector, requirement_error
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage._core.state.pod_spec import pinned_node
from moorage.framework.plugin import signing
from moorage.framework.plugin.events import NODE, ActionType, of_class, on, queue_if
from moorage.framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from moorage.framework.plugin.lazy_attribute import lazy_attribute
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import (
    Node,
    NodeSelector,
    NodeSelectorMatcher,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
)
from moorage.objects.model import pod as pod_objects
from moorage.objects.model.meta import LabelSelectorRequirement
from moorage.objects.model.pod import Affinity
from moorage.objects.read.decode import decode

from .node_name import NodeNameEvidence

NO_TERMS = "terms (required node affinity has none)"


@dataclass(frozen=True)
class LabelEvidence(Evidence):
    """A requirement that the labels of a node, or its name, do not meet.

    Attributes
    ----------
    requirement : str
        An entry of nodeSelector, or a requirement of node affinity; of several terms, of the one that lacks
        the fewest.
    by_profile : bool
        Whether addedAffinity of the profile requires it.
    """

    kind = "label"
    is_need = True
    requirement: str
    by_profile: bool = False

    @property
    def name(self) -> str:
        return self.requirement

    @property
    def text(self) -> str:
        return f"label {self.requirement}" + (" (addedAffinity of the profile)" if self.by_profile else "")


class NodeAffinity(
    InTreePlugin,
    EvidencePlugin,
    fwk.PreFilterPlugin,
    fwk.FilterPlugin,
    fwk.PreScorePlugin,
    fwk.ScorePlugin,
):
    """Filters by nodeSelector and required terms, scores by preferred terms (v1.36, node_affinity.go).

    The raw score is the sum of the weights of matching preferred terms; the score is 100 * sum / maximum.
    Argument: ``addedAffinity``, for all pods of the profile.
    """

    name = "NodeAffinity"
    reason_texts = (
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't match scheduler-enforced node affinity",
    )
    default_weight = 2

    def pre_filter(
        self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView
    ) -> fwk.PreFilterResult | fwk.Status | None:
        shape = state.shape
        if not shape.has_node_affinity and (self.added is None or self.added.required is None):
            return fwk.SKIP
        if shape.names_conflict:
            text = "pod affinity terms conflict"
            return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
        pinned = pinned_node(pod.spec)
        if pinned is not None:
            return fwk.PreFilterResult(frozenset({pinned}))
        return None if shape.node_names is None else fwk.PreFilterResult(shape.node_names)

    def may_reject(self, shape: Shape) -> bool:
        return shape.names_conflict or bool(shape.preferred_error)

    def pre_score(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        shape = state.shape
        if shape.preferred_error:
            return fwk.Status(fwk.Code.ERROR, (shape.preferred_error,), self.name)
        return None if shape.has_preferred or (self.added and self.added.preferred) else fwk.SKIP

    @lazy_attribute
    def added(self) -> pod_objects.NodeAffinity | None:
        """The argument addedAffinity."""
        added = self.args.get("addedAffinity")
        return None if added is None else decode(dict(added), pod_objects.NodeAffinity)

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        added = self.added
        if added is None:
            return {}
        if added.required is not None:
            # Terms are doubled, since a single term that names one node would pin the pod to it.
            terms = added.required.node_selector_terms * 2
            added = structs.replace(
                added, required=structs.replace(added.required, node_selector_terms=terms)
            )
        pod = Pod(spec=PodSpec(affinity=Affinity(node_affinity=added)))
        return {"added": state.classes.shape_of(state.classes.intern(pod))}

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.node_affinity(pod)

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        spec = inquiry.pod.spec
        only = made_for(inquiry.pod)
        own = _Requirements(spec.node_selector, required_terms(spec))
        added = None if self.added is None or self.added.required is None else self.added.required
        enforced = _Requirements(None, None if added is None else added.node_selector_terms)

        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            reads_names = own.reads_names or enforced.reads_names
            keys = {*own.keys, *enforced.keys}
            alike = ((row, 1) for row in rows.tolist()) if reads_names else inquiry.alike(rows, keys)
            for row, nodes in alike:
                node = inquiry.node(row)
                unmet = own.unmet(node)
                if only is not None and unmet:
                    yield replace(only, nodes=nodes)
                else:
                    yield from (LabelEvidence(text, nodes=nodes) for text in unmet)
                for text in enforced.unmet(node):
                    yield LabelEvidence(text, by_profile=True, nodes=nodes)

        return find

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self.after_node_change)]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node matches the pod and did not match before.

        addedAffinity is matched against the new node only.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Node or None
            The object before the event; None if it was added.
        new : Node
            The object after the event.
        """
        added = None if self.added is None else self.added.required
        is_let_in = added is None or NodeSelectorMatcher(added).matches(new)
        return queue_if(is_let_in and _matches(pod, new) and not (old is not None and _matches(pod, old)))


def _matches(pod: Pod, node: Node) -> bool:
    """Whether nodeSelector and required node affinity match; ValueError for a malformed term otherwise."""
    if pod_matches_node_selector(pod.spec, node):
        return True
    required = (
        pod.spec.affinity and pod.spec.affinity.node_affinity and pod.spec.affinity.node_affinity.required
    )
    if required and pod_matches_node_selector(structs.replace(pod.spec, affinity=None), node):
        _refuse_malformed(required)
    return False


def _refuse_malformed(selector: NodeSelector) -> None:
    for term in selector.node_selector_terms:
        errors = [requirement_error(r.key, r.operator, r.values, node=True) for r in term.match_expressions]
        errors += [field_requirement_error(r.key, r.operator, r.values) for r in term.match_fields]
        for error in errors:
            if error is not None:
                raise ValueError(error)


# ---- evidence ----------------------------------------------------------------------------------------------


class _Requirements:
    """nodeSelector and the terms of required node affinity, each requirement on its own.

    Parameters
    ----------
    terms : sequence of NodeSelectorTerm or None
        One of them has to match; None: no node affinity.

    Attributes
    ----------
    keys : set of str
        Of the labels that are compared.
    reads_names : bool
        Whether names of nodes are compared, too.
    """

    def __init__(self, selector: Mapping[str, str] | None, terms: Sequence[NodeSelectorTerm] | None) -> None:
        self._selector = selector or {}
        self._terms = None if terms is None else [_split(term) for term in terms]
        self.keys = {*self._selector, *(r.key for one in terms or () for r in one.match_expressions)}
        self.reads_names = any(one.match_fields for one in terms or ())

    def unmet(self, node: Node) -> list[str]:
        """Return the requirements that a node does not meet; of several terms, those of the term with the
        fewest."""
        labels = node.metadata.labels
        unmet = [f"{key}={value}" for key, value in self._selector.items() if labels.get(key) != value]
        if self._terms is not None:
            lacking = [[text for text, matcher in term if not matcher.matches(node)] for term in self._terms]
            unmet += sorted(lacking, key=len)[0] if lacking else [NO_TERMS]
        return list(dict.fromkeys(unmet))


def _split(term: NodeSelectorTerm) -> list[tuple[str, NodeSelectorMatcher]]:
    """Return the requirements of a term, each on its own: its text, and what it matches."""
    on_labels = [(r, NodeSelectorTerm(match_expressions=(r,))) for r in term.match_expressions]
    on_name = [(r, NodeSelectorTerm(match_fields=(r,))) for r in term.match_fields]
    if not on_labels and not on_name:
        return [("(an empty term matches no node)", NodeSelectorMatcher(NodeSelector()))]
    return [
        (requirement_text(r), NodeSelectorMatcher(NodeSelector(node_selector_terms=(alone,))))
        for r, alone in (*on_labels, *on_name)
    ]


def made_for(pod: Pod) -> NodeNameEvidence | None:
    """Return the node that a DaemonSet's controller has made a pod for; None for other pods."""
    controller = pod.metadata.controller()
    node = pinned_node(pod.spec)
    if controller is None or controller.kind != "DaemonSet" or node is None:
        return None
    return NodeNameEvidence(node, f"daemonset/{controller.name}")


def required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of required node affinity, of which one has to match; None without it."""
    affinity = spec.affinity and spec.affinity.node_affinity
    return affinity.required.node_selector_terms if affinity and affinity.required is not None else None


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    """Return a requirement on one line: ``zone In [a, b]``."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"
