"""VolumeZone: known by name; its decisions are not built yet. VolumeBinding reports pods with claims for
both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.framework import signing
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod


class VolumeZone(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)
