"""PodTopologySpread: spreads pods over the domains of labels; hard constraints filter, soft ones score."""

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
from moorage.objects.pod import Pod, TopologySpreadConstraint

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", "ScheduleAnyway"),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
)


class PodTopologySpread(NativePlugin):
    """kube-scheduler v1.36, podtopologyspread/. The bucket is the weighed sum of matching pods; constants need
    its extremes over the feasible nodes. Pods without constraints get the system's or a list's."""

    name = "PodTopologySpread"
    extension_points = (PRE_FILTER, FILTER, PRE_SCORE, SCORE)
    default_weight = 2
    default_args = {"defaultingType": "System"}

    def pre_filter(self, pod: Pod, shape: Shape, terms: Terms) -> Status | frozenset[str] | None:
        if terms.spread_error:
            text = f"obtaining pod's hard topology spread constraints: {terms.spread_error}"
            return Status(Code.ERROR, (text,), self.name)
        return None if terms.n_hard else SKIP

    def pre_score(self, pod: Pod, shape: Shape, terms: Terms) -> Status | None:
        if terms.spread_score_error:
            text = f"calculating preScoreState: obtaining pod's soft topology spread constraints: {terms.spread_score_error}"
            return Status(Code.ERROR, (text,), self.name)
        return None if terms.n_soft else SKIP

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        text = "node(s) didn't match pod topology spread constraints"
        return (text if bits == 1 else f"{text} (missing required label)",)
