"""InterPodAffinity: required terms filter, preferred ones score, the pod's own and those of the pods there."""

from __future__ import annotations

from moorage._core.pod_class import Shape
from moorage._core.terms import Terms
from moorage.framework.interface import (
    FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    SKIP,
    Code,
    NativePlugin,
    Status,
)
from moorage.objects.pod import Pod

REASONS = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


class InterPodAffinity(NativePlugin):
    """kube-scheduler v1.36, interpodaffinity/. The bucket is the sum of the weights; its constant lies between
    the extremes of the feasible nodes."""

    name = "InterPodAffinity"
    extension_points = (PRE_FILTER, FILTER, PRE_SCORE, SCORE)
    default_weight = 2
    default_args = {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        if shape.terms_error:
            text = f"parsing pod: {shape.terms_error}"
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)
        return None if terms.affinity_filters else SKIP

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        return None if terms.affinity_scores else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return tuple(text for bit, text in enumerate(REASONS) if bits >> bit & 1)
