"""GangScheduling: known by name only; it is off by default, and concerns pods of pod groups alone."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import PERMIT, PRE_ENQUEUE


class GangScheduling(UnbuiltPlugin):
    """kube-scheduler v1.36, gangscheduling/."""

    name = "GangScheduling"
    extension_points = (PRE_ENQUEUE, PERMIT)
    feature_gate = "GangScheduling"
