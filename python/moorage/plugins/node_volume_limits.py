"""NodeVolumeLimits: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.framework.interface import FILTER, PRE_FILTER, UnbuiltPlugin
from moorage.objects.meta import Object
from moorage.objects.pod import Pod


class NodeVolumeLimits(UnbuiltPlugin):
    """kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"
    extension_points = (PRE_FILTER, FILTER)

    def unbuilt_use(self, pod: Pod, workloads: Sequence[Object]) -> str:
        volumes = any(v.csi or v.azure_disk or v.cinder for v in pod.spec.volumes)
        return "volume limits" if volumes else ""
