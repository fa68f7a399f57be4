"""PodGroupPodsCount: known by name only; it is off by default, and concerns pods of pod groups alone."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import PLACEMENT_SCORE


class PodGroupPodsCount(UnbuiltPlugin):
    """kube-scheduler v1.36, podgrouppodscount/."""

    name = "PodGroupPodsCount"
    extension_points = (PLACEMENT_SCORE,)
    default_weight = 1
    feature_gate = "TopologyAwareWorkloadScheduling"
