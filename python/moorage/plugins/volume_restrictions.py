"""VolumeRestrictions: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.framework import signing
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod


class VolumeRestrictions(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, volumerestrictions/."""

    name = "VolumeRestrictions"

    def unbuilt_use(self, pod: Pod) -> str:
        disks = any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd for v in pod.spec.volumes
        )
        return "in-tree disks" if disks else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)
