"""NodeDeclaredFeatures: known by name only; it filters nothing for pods that need no declared feature."""

from __future__ import annotations

from collections.abc import Sequence

from moorage import framework as fwk
from moorage.framework.plugin.events import NODE, POD, ActionType, is_same_pod, on, queue_if
from moorage.framework.profiles.in_core import UnbuiltPlugin
from moorage.objects import Node, Pod


class NodeDeclaredFeatures(
    UnbuiltPlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.EnqueueExtensions, fwk.SignPlugin
):
    """kube-scheduler v1.36, nodedeclaredfeatures/."""

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"

    def sign_pod(self, pod: Pod) -> None:
        """Nothing that pods hold here needs a declared feature."""

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [on(NODE, nodes, self.after_node_change), on(POD, ActionType.UPDATE, self.after_pod_change)]

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """A node came, or declares other features."""
        return queue_if(old is None or old.status.declared_features != new.status.declared_features)

    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """This pod needs other features."""
        return queue_if(is_same_pod(pod, new) and _needs(old) != _needs(new))


def _needs(pod: Pod) -> tuple[bool, bool]:
    """Which features a pod needs of those that nodes may declare (nodedeclaredfeatures/features): that all
    containers restart, and user namespaces in the host's network."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    rules = (rule for container in containers for rule in container.restart_policy_rules)
    restarts = any(rule.action == "RestartAllContainers" for rule in rules)
    return restarts, pod.spec.host_network and pod.spec.host_users is False
