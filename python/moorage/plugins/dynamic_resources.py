"""DynamicResources: known by name only. It filters nothing and scores 0 for pods without resource claims, and
pods with claims are refused when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage.framework.cycle_state import CycleState
from moorage.framework.in_core import CorePostFilter, UnbuiltPlugin
from moorage.framework.interface import (
    FilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from moorage.framework.signing import UNSIGNED
from moorage.framework.status import Code, Status
from moorage.objects.pod import Pod

if TYPE_CHECKING:
    from moorage._core.pod_class import Shape

NO_CLAIMS = "no new claims to deallocate"


class DynamicResources(
    UnbuiltPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    CorePostFilter,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    SignPlugin,
):
    """kube-scheduler v1.36, dynamicresources/."""

    name = "DynamicResources"
    default_weight = 2
    feature_gate = "DynamicResourceAllocation"
    default_args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        return None, Status(Code.UNSCHEDULABLE, (NO_CLAIMS,), self.name)

    def could_help(self, shape: Shape, potential: int) -> bool:
        return False

    def unhelpful(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        return NO_CLAIMS, False

    def sign_pod(self, pod: Pod) -> Status | None:
        return UNSIGNED if pod.spec.resource_claims else None
