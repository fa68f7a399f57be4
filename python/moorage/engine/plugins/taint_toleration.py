"""TaintToleration: matches taints of nodes with tolerations of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.base.selectors import find_intolerable_taint
from moorage._core.base.sets import Toleration
from moorage.engine import framework as fwk
from moorage.kube import Node, Pod

from ..framework.plugin import signing
from ..framework.plugin.events import NODE, POD, ActionType, is_same_pod, of_class, of_itself, on, queue_if
from ..framework.profiles.in_core import InTreePlugin

REJECTING_EFFECTS = ("NoSchedule", "NoExecute")


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
        return signing.tolerations(pod)

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
