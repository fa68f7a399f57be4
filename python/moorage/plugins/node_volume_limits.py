"""NodeVolumeLimits: known by name; its decisions are not built yet."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin
from moorage.objects.pod import Pod


class NodeVolumeLimits(UnbuiltPlugin, PreFilterPlugin, FilterPlugin):
    """kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def unbuilt_use(self, pod: Pod) -> str:
        volumes = any(v.csi or v.azure_disk or v.cinder for v in pod.spec.volumes)
        return "volume limits" if volumes else ""
