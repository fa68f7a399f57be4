"""The plugins that look at what a node says of itself: NodeAffinity, NodeName, NodeUnschedulable,
TaintToleration, NodeDeclaredFeatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import structs

from moorage._core.base.selectors import (
    field_requirement_error,
    find_intolerable_taint,
    pod_matches_node_selector,
    requirement_error,
    tolerates,
)
from moorage._core.base.sets import Toleration
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.declared_features import required_features
from moorage._core.state.pod_spec import pinned_node
from moorage.engine import framework as fwk
from moorage.kube import Node, NodeSelectorMatcher, Pod, PodSpec, Taint
from moorage.kube.apiserver.decode import decode
from moorage.kube.model import pod as pod_objects
from moorage.kube.model.node import REJECTING_EFFECTS
from moorage.kube.model.pod import Affinity
from moorage.lazy import lazy_attribute

from ..framework import in_tree_plugins
from ..framework.events import NODE, POD, ActionType, is_same_pod, of_class, of_itself, on, queue_if
from ..framework.in_tree_plugins import InTreePlugin

# ---- node affinity -----------------------------------------------------------------------------------------


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
    may_reject_if = attrgetter("names_conflict"), attrgetter("preferred_error")
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
        return in_tree_plugins.node_affinity(pod)

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
        for term in required.node_selector_terms:
            errors = [
                requirement_error(r.key, r.operator, r.values, node=True) for r in term.match_expressions
            ]
            errors += [field_requirement_error(r.key, r.operator, r.values) for r in term.match_fields]
            for error in filter(None, errors):
                raise ValueError(error)
    return False


# ---- node name ---------------------------------------------------------------------------------------------


class NodeName(InTreePlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_name.go."""

    name = "NodeName"
    reason_texts = ("node(s) didn't match the requested node name",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return {"nodeName": pod.spec.node_name}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD)]


class NodeNamePreFilter(NodeName, fwk.PreFilterPlugin):
    """NodeName since v1.37, which narrows the search to the named node."""

    def pre_filter(
        self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView
    ) -> fwk.PreFilterResult | fwk.Status | None:
        return fwk.PreFilterResult(frozenset({pod.spec.node_name})) if pod.spec.node_name else None


# ---- node unschedulable ------------------------------------------------------------------------------------

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(InTreePlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_unschedulable.go.

    A pod that tolerates the taint ``node.kubernetes.io/unschedulable`` passes.
    """

    name = "NodeUnschedulable"
    reason_texts = ("node(s) were unschedulable",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return in_tree_plugins.tolerations(pod)

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self.after_node_change),
            on(POD, ActionType.UPDATE_POD_TOLERATION, self.after_toleration_change),
        ]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node was added or uncordoned and is schedulable; tolerations do not count."""
        return queue_if(not new.spec.unschedulable and (old is None or old.spec.unschedulable))

    @of_itself
    def after_toleration_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the pod tolerates the taint now."""
        return queue_if(is_same_pod(pod, new) and tolerates(new.spec.tolerations, UNSCHEDULABLE))


class NodeUnschedulablePreFilter(NodeUnschedulable, fwk.PreFilterPlugin):
    """NodeUnschedulable since v1.37, whose PreFilter accepts every pod."""


# ---- taint toleration --------------------------------------------------------------------------------------


class TaintToleration(InTreePlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin):
    """Filters by NoSchedule and NoExecute taints, scores by PreferNoSchedule ones (taint_toleration.go).

    The raw score n is the number of PreferNoSchedule taints that the pod does not tolerate; the score is 100
    - 100 * n / maximum (kube-scheduler v1.36).
    """

    name = "TaintToleration"
    reason_texts = ("node(s) had untolerated taint(s)",)
    missing_state_text = {fwk.ScorePlugin: 'failed to read "PreScoreTaintToleration"'}
    default_weight = 3

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return in_tree_plugins.tolerations(pod)

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self.after_node_change),
            on(POD, ActionType.UPDATE_POD_TOLERATION, self.after_toleration_change),
        ]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if the pod tolerates the taints of a node and did not before."""
        tolerations = self.shape_of(pod).tolerations
        is_new = old is None or not _is_tolerated(tolerations, old)
        return queue_if(is_new and _is_tolerated(tolerations, new))

    @of_itself
    def after_toleration_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the tolerations of the pod changed."""
        return queue_if(is_same_pod(pod, new))


class TaintTolerationPreFilter(TaintToleration, fwk.PreFilterPlugin):
    """TaintToleration since v1.37, whose PreFilter accepts every pod."""


def _is_tolerated(tolerations: tuple[Toleration, ...], node: Node) -> bool:
    """Whether a pod's tolerations cover a node's taints.

    The tolerations are those of a shape, which contain Lt and Gt only with their feature gate.
    """
    return find_intolerable_taint(node.spec.taints, tolerations, REJECTING_EFFECTS, True) is None


# ---- node declared features --------------------------------------------------------------------------------


class NodeDeclaredFeatures(InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin):
    """PreFilter and Filter of kube-scheduler v1.36, nodedeclaredfeatures/.

    Pods need the feature RestartAllContainersOnContainerExits for restart rules of their containers with that
    action, and UserNamespacesHostNetworkSupport for ``hostNetwork: true`` with ``hostUsers: false``. Nodes
    declare features in ``status.declaredFeatures``. Feature gates of the kubelet have no effect.
    """

    name = "NodeDeclaredFeatures"
    may_reject_if = ()
    feature_gate = "NodeDeclaredFeatures"
    reason_texts = ("node(s) didn't match Pod's required features",)
    missing_state_text = {fwk.FilterPlugin: 'error reading "PreFilterNodeDeclaredFeatures"'}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if state.shape.features else fwk.SKIP

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return {"features": required_features(pod.spec)}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [on(NODE, nodes, self.after_node_change), on(POD, ActionType.UPDATE, self.after_pod_change)]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node was added or declares other features."""
        return queue_if(old is None or old.status.declared_features != new.status.declared_features)

    @of_itself
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the pod needs other features."""
        return queue_if(is_same_pod(pod, new) and required_features(old.spec) != required_features(new.spec))
