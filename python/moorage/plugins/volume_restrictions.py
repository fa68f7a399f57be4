"""VolumeRestrictions: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework import signing
from moorage.framework.events import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    on,
    queue_if,
)
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod, Volume
from moorage.objects.storage import PersistentVolumeClaim


class VolumeRestrictions(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """kube-scheduler v1.36, volumerestrictions/."""

    name = "VolumeRestrictions"

    def unbuilt_use(self, pod: Pod) -> str:
        disks = any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd for v in pod.spec.volumes
        )
        return "in-tree disks" if disks else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            on(POD, ActionType.DELETE, self.after_pod_deleted),
            on(NODE, ActionType.ADD),
            on(PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.after_claim_added),
        ]

    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> QueueingHint:
        """A pod of the namespace went, even one without a node, that held a disk or a claim of the pod. What
        pods of other namespaces held is left out, though it conflicts."""
        if old.namespace != pod.namespace:
            return queue_if(False)
        pairs = [(mine, theirs) for mine in pod.spec.volumes for theirs in old.spec.volumes]
        return queue_if(claim_names(pod) & claim_names(old) or any(conflict(*pair) for pair in pairs))

    def after_claim_added(self, pod: Pod, old: None, new: PersistentVolumeClaim) -> QueueingHint:
        """A claim came that the pod names; ephemeral ones do not count."""
        return queue_if(new.namespace == pod.namespace and new.name in claim_names(pod))


def claim_names(pod: Pod) -> set[str]:
    """The claims that a pod names."""
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {claim.claim_name for claim in claims if claim is not None}


def conflict(mine: Volume, theirs: Volume) -> bool:
    """Whether two volumes are one disk that cannot be mounted twice (volume_restrictions.go
    isVolumeConflict)."""
    a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
    if a and b and a.pd_name == b.pd_name and not (a.read_only and b.read_only):
        return True
    a, b = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
    if a and b and a.volume_id == b.volume_id:
        return True
    a, b = mine.iscsi, theirs.iscsi
    if a and b and a.iqn == b.iqn and not (a.read_only and b.read_only):
        return True
    a, b = mine.rbd, theirs.rbd
    if a is None or b is None or (a.read_only and b.read_only):
        return False
    return bool(set(a.monitors) & set(b.monitors)) and (a.pool, a.image) == (b.pool, b.image)
