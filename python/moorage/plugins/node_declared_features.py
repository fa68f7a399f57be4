"""NodeDeclaredFeatures: features that nodes declare and pods need, which this version does not implement."""

from __future__ import annotations

from collections.abc import Sequence

from moorage import framework as fwk
from moorage.framework.plugin.events import (
    NODE,
    POD,
    ActionType,
    is_same_pod,
    of_class,
    of_itself,
    on,
    queue_if,
)
from moorage.framework.profiles.in_core import UnbuiltPlugin
from moorage.objects import Node, Pod


class NodeDeclaredFeatures(UnbuiltPlugin):
    """A placeholder with the queueing hints of kube-scheduler v1.36, nodedeclaredfeatures/.

    It filters no node.
    """

    name = "NodeDeclaredFeatures"
    feature_gate = "NodeDeclaredFeatures"

    def sign_pod(self, pod: Pod) -> None:
        """Return None: no part of a supported pod needs a declared feature.

        Parameters
        ----------
        pod : Pod
        """

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [on(NODE, nodes, self.after_node_change), on(POD, ActionType.UPDATE, self.after_pod_change)]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if a node was added or declares other features.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Node or None
            The object before the event; None if it was added.
        new : Node
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(old is None or old.status.declared_features != new.status.declared_features)

    @of_itself
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the pod needs other features.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : Pod
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(is_same_pod(pod, new) and _needs(old) != _needs(new))


def _needs(pod: Pod) -> tuple[bool, bool]:
    """The declared features that a pod needs (nodedeclaredfeatures/features).

    They are restarts of all containers, and user namespaces in the host's network.
    """
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    rules = (rule for container in containers for rule in container.restart_policy_rules)
    restarts = any(rule.action == "RestartAllContainers" for rule in rules)
    return restarts, pod.spec.host_network and pod.spec.host_users is False
