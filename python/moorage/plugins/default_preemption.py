"""DefaultPreemption: known by name; no pod is preempted yet."""

from __future__ import annotations

from moorage.framework.interface import POST_FILTER, PRE_ENQUEUE, UnbuiltPlugin


class DefaultPreemption(UnbuiltPlugin):
    """kube-scheduler v1.36, defaultpreemption/."""

    name = "DefaultPreemption"
    extension_points = (PRE_ENQUEUE, POST_FILTER)
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}
