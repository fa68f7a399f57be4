"""PodTopologySpread: spreads pods over the domains of labels; hard constraints filter, soft ones score."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
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
from moorage.objects.decode import decode
from moorage.objects.pod import Pod, TopologySpreadConstraint

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(3, "kubernetes.io/hostname", "ScheduleAnyway"),
    TopologySpreadConstraint(5, "topology.kubernetes.io/zone", "ScheduleAnyway"),
)


class PodTopologySpread(NativePlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin):
    """kube-scheduler v1.36, podtopologyspread/. The bucket is the weighed sum of matching pods; constants
    need its extremes over the feasible nodes. Pods without constraints get the system's or a list's."""

    name = "PodTopologySpread"
    unread = {
        FILTER: 'reading "PreFilterPodTopologySpread"',
        SCORE: 'error reading "PreScorePodTopologySpread"',
    }
    default_weight = 2
    default_args = {"defaultingType": "System"}

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        terms = state.terms
        if terms.spread_error:
            text = f"obtaining pod's hard topology spread constraints: {terms.spread_error}"
            return Status(Code.ERROR, (text,), self.name)
        return None if terms.n_hard else SKIP

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        terms = state.terms
        if terms.spread_score_error:
            what = "calculating preScoreState: obtaining pod's soft topology spread constraints"
            text = f"{what}: {terms.spread_score_error}"
            return Status(Code.ERROR, (text,), self.name)
        return None if terms.n_soft else SKIP

    @property
    def is_system_defaulted(self) -> bool:
        """Whether pods without constraints get the system's, not those of a list."""
        return bool(self.args["defaultingType"] == "System")

    @cached_property
    def default_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """What spreads pods without constraints of their own."""
        if self.is_system_defaulted:
            return SYSTEM_CONSTRAINTS
        return tuple(map(_constraint, self.args.get("defaultConstraints") or ()))

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        return {
            "default_constraints": self.default_constraints,
            "system_defaulted": self.is_system_defaulted,
        }

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        text = "node(s) didn't match pod topology spread constraints"
        return (text if bits == 1 else f"{text} (missing required label)",)

    @property
    def can_sign(self) -> bool:
        """False with default constraints, the system's for instance: every pod may be spread by them."""
        return not self.default_constraints

    def sign_pod(self, pod: Pod) -> Status | None:
        return UNSIGNED if pod.spec.topology_spread_constraints else None


def _constraint(given: Mapping[str, Any]) -> TopologySpreadConstraint:
    return decode(dict(given), TopologySpreadConstraint)
