"""DefaultPreemption: known by name; no pod is preempted yet."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import PostFilterPlugin, PreEnqueuePlugin


class DefaultPreemption(UnbuiltPlugin, PreEnqueuePlugin, PostFilterPlugin):
    """kube-scheduler v1.36, defaultpreemption/."""

    name = "DefaultPreemption"
    default_args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}
