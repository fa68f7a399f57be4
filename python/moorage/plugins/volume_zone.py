"""VolumeZone: known by name; its decisions are not built yet. VolumeBinding reports pods with claims for
both."""

from __future__ import annotations

from moorage.framework.interface import FILTER, PRE_FILTER, UnbuiltPlugin


class VolumeZone(UnbuiltPlugin):
    """kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"
    extension_points = (PRE_FILTER, FILTER)
