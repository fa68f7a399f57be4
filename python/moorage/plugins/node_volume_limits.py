"""NodeVolumeLimits: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.framework import signing
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod


class NodeVolumeLimits(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def unbuilt_use(self, pod: Pod) -> str:
        volumes = any(v.csi or v.azure_disk or v.cinder for v in pod.spec.volumes)
        return "volume limits" if volumes else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)
