"""DynamicResources: known by name only. It filters nothing and scores 0 for pods without resource claims, and
pods with claims are refused when they are read."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import (
    FilterPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
    Status,
)
from moorage.framework.signing import UNSIGNED
from moorage.objects.pod import Pod


class DynamicResources(
    UnbuiltPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
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

    def sign_pod(self, pod: Pod) -> Status | None:
        return UNSIGNED if pod.spec.resource_claims else None
