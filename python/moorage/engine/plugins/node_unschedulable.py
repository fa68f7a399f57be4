"""NodeUnschedulable: rejects nodes with spec.unschedulable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.base.selectors import tolerates
from moorage.engine import framework as fwk
from moorage.kube import Node, Pod, Taint

from ..framework.plugin import signing
from ..framework.plugin.events import NODE, POD, ActionType, is_same_pod, of_class, of_itself, on, queue_if
from ..framework.profiles.in_core import InTreePlugin

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(InTreePlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_unschedulable.go.

    A pod that tolerates the taint ``node.kubernetes.io/unschedulable`` passes.
    """

    name = "NodeUnschedulable"
    reason_texts = ("node(s) were unschedulable",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.tolerations(pod)

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
