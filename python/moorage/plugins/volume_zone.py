"""VolumeZone: known by name; its decisions are not built yet. VolumeBinding reports pods with claims for
both."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin


class VolumeZone(UnbuiltPlugin, PreFilterPlugin, FilterPlugin):
    """kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"
