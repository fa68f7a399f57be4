"""VolumeRestrictions: known by name; its decisions are not built yet."""

from __future__ import annotations

from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin
from moorage.objects.pod import Pod


class VolumeRestrictions(UnbuiltPlugin, PreFilterPlugin, FilterPlugin):
    """kube-scheduler v1.36, volumerestrictions/."""

    name = "VolumeRestrictions"

    def unbuilt_use(self, pod: Pod) -> str:
        disks = any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd for v in pod.spec.volumes
        )
        return "in-tree disks" if disks else ""
