"""NodeDeclaredFeatures: rejects nodes that do not declare the features that the pod needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.state.declared_features import required_features
from moorage._core.state.pod_class import Shape
from moorage.engine import framework as fwk
from moorage.kube import Node, Pod

from ..framework.plugin.events import NODE, POD, ActionType, is_same_pod, of_class, of_itself, on, queue_if
from ..framework.profiles.in_core import InTreePlugin


class NodeDeclaredFeatures(InTreePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin):
    """PreFilter and Filter of kube-scheduler v1.36, nodedeclaredfeatures/.

    Pods need the feature RestartAllContainersOnContainerExits for restart rules of their containers with that
    action, and UserNamespacesHostNetworkSupport for ``hostNetwork: true`` with ``hostUsers: false``. Nodes
    declare features in ``status.declaredFeatures``. Feature gates of the kubelet have no effect.
    """

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"
    reason_texts = ("node(s) didn't match Pod's required features",)
    missing_state_text = {fwk.FilterPlugin: 'error reading "PreFilterNodeDeclaredFeatures"'}

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        return None if state.shape.features else fwk.SKIP

    def may_reject(self, shape: Shape) -> bool:
        return False

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
