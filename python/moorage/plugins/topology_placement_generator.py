"""TopologyPlacementGenerator: known by name only; it is off by default, and for pod groups alone."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import PLACEMENT_GENERATE


class TopologyPlacementGenerator(UnbuiltPlugin):
    """kube-scheduler v1.36, topologyaware/."""

    name = "TopologyPlacementGenerator"
    extension_points = (PLACEMENT_GENERATE,)
    feature_gate = "TopologyAwareWorkloadScheduling"
