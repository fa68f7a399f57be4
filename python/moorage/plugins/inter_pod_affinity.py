"""InterPodAffinity: required terms filter, preferred ones score; the pod's and those of pods there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.pod_class import Shape
from moorage._core.state import ClusterState
from moorage.framework.cycle_state import CycleState
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import (
    FILTER,
    SCORE,
    SKIP,
    Code,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    SignPlugin,
    Status,
)
from moorage.framework.nodes_view import NodesView
from moorage.framework.signing import UNSIGNED
from moorage.objects.pod import Pod

REASONS = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


class InterPodAffinity(NativePlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin):
    """kube-scheduler v1.36, interpodaffinity/. The bucket is the sum of the weights; its constant lies
    between the extremes of the feasible nodes."""

    name = "InterPodAffinity"
    unread = {
        FILTER: 'error reading "PreFilterInterPodAffinity"',
        SCORE: 'failed to read "PreScoreInterPodAffinity"',
    }
    default_weight = 2
    default_args = {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        if state.shape.terms_error:
            text = f"parsing pod: {state.shape.terms_error}"
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
        return None if state.terms.affinity_filters else SKIP

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        return None if state.terms.affinity_scores else SKIP

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {
            "hard_pod_affinity_weight": self.args["hardPodAffinityWeight"],
            "ignore_preferred": self.args["ignorePreferredTermsOfExistingPods"],
        }

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return tuple(text for bit, text in enumerate(REASONS) if bits >> bit & 1)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any] | Status | None:
        """Terms of other pods may match the labels. Where their preferred terms are ignored, labels do not
        count at all, though required terms may still match them."""
        affinity = pod.spec.affinity
        if affinity is not None and (affinity.pod_affinity, affinity.pod_anti_affinity) != (None, None):
            return UNSIGNED
        return None if self.args["ignorePreferredTermsOfExistingPods"] else {"labels": pod.metadata.labels}
