"""TaintToleration: matches taints of nodes with tolerations of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage import framework as fwk
from moorage._core.base.selectors import find_intolerable_taint, tolerates
from moorage._core.base.sets import Toleration
from moorage.framework.plugin import signing
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
from moorage.framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import Node, Pod, Taint

from .node_unschedulable import UNSCHEDULABLE, CordonEvidence

REJECTING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class TaintEvidence(Evidence):
    """A taint that the pod does not tolerate."""

    kind = "toleration"
    is_need = True
    taint: str

    @property
    def name(self) -> str:
        return self.taint

    @property
    def text(self) -> str:
        return f"untolerated taint {self.taint}"


class TaintToleration(InTreePlugin, EvidencePlugin, fwk.FilterPlugin, fwk.PreScorePlugin, fwk.ScorePlugin):
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

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        tolerations = inquiry.state.shape.tolerations

        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            for taints, nodes in Counter(inquiry.node(row).spec.taints for row in rows.tolist()).items():
                for taint in taints:
                    if taint.effect in REJECTING_EFFECTS and not tolerates(tolerations, taint, True):
                        is_cordon = (taint.key, taint.value) == (UNSCHEDULABLE.key, UNSCHEDULABLE.value)
                        is_cordon = is_cordon and taint.effect == UNSCHEDULABLE.effect
                        cordon = CordonEvidence(nodes=nodes)
                        yield cordon if is_cordon else TaintEvidence(taint_text(taint), nodes=nodes)

        return find

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self.after_node_change),
            on(POD, ActionType.UPDATE_POD_TOLERATION, self.after_toleration_change),
        ]

    @of_class
    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> fwk.QueueingHint:
        """Queue if the pod tolerates the taints of a node and did not before.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Node or None
            The object before the event; None if it was added.
        new : Node
            The object after the event.
        """
        tolerations = self.shape_of(pod).tolerations
        is_new = old is None or not _is_tolerated(tolerations, old)
        return queue_if(is_new and _is_tolerated(tolerations, new))

    @of_itself
    def after_toleration_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the tolerations of the pod changed.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : Pod
            The object after the event.
        """
        return queue_if(is_same_pod(pod, new))


class TaintTolerationPreFilter(TaintToleration, fwk.PreFilterPlugin):
    """TaintToleration since v1.37, whose PreFilter accepts every pod."""


def taint_text(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _is_tolerated(tolerations: tuple[Toleration, ...], node: Node) -> bool:
    """Whether a pod's tolerations cover a node's taints.

    The tolerations are those of a shape, which contain Lt and Gt only with their feature gate.
    """
    return find_intolerable_taint(node.spec.taints, tolerations, REJECTING_EFFECTS, True) is None
