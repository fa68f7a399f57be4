"""NodeAffinity: nodeSelector and node affinity of the pod, and addedAffinity of the profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from moorage._core.base.selectors import field_requirement_error, pod_matches_node_selector, requirement_error
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.pod_class import Shape
from moorage._core.state.pod_spec import pinned_node
from moorage.engine import framework as fwk
from moorage.kube import Node, NodeSelector, NodeSelectorMatcher, NodeSelectorRequirement, Pod, PodSpec
from moorage.kube.model import pod as pod_objects
from moorage.kube.model.meta import LabelSelectorRequirement
from moorage.kube.model.pod import Affinity
from moorage.kube.read.decode import decode

from ..framework.plugin import signing
from ..framework.plugin.events import NODE, ActionType, of_class, on, queue_if
from ..framework.plugin.lazy_attribute import lazy_attribute
from ..framework.profiles.in_core import InTreePlugin


class NodeAffinity(
    InTreePlugin,
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

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self.after_node_change)]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node matches the pod and did not match before.

        addedAffinity is matched against the new node only.
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


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    """Return a requirement on one line: ``zone In [a, b]``."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"
