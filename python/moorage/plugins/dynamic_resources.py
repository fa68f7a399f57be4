"""DynamicResources: known by name only. It filters nothing and scores 0 for pods without resource claims, and
pods with claims are refused when they are read."""

from __future__ import annotations

from moorage.framework.interface import (
    FILTER,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FILTER,
    RESERVE,
    SCORE,
    UnbuiltPlugin,
)


class DynamicResources(UnbuiltPlugin):
    """kube-scheduler v1.36, dynamicresources/."""

    name = "DynamicResources"
    extension_points = (PRE_ENQUEUE, PRE_FILTER, FILTER, POST_FILTER, SCORE, RESERVE, PRE_BIND)
    default_weight = 2
    feature_gate = "DynamicResourceAllocation"
    default_args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}
