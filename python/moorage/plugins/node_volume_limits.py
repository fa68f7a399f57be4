"""NodeVolumeLimits: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework import signing
from moorage.framework.events import (
    CSI_NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    VOLUME_ATTACHMENT,
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    is_live,
    on,
    queue_if,
)
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod, Volume
from moorage.objects.storage import CSINode, PersistentVolumeClaim, VolumeAttachment

from .volume_restrictions import claim_names

# Inline volumes of in-tree drivers, by the field of a volume, that CSI drivers have taken over.
MIGRATED = {
    "aws_elastic_block_store": "ebs.csi.aws.com",
    "gce_persistent_disk": "pd.csi.storage.gke.io",
    "azure_disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
}


class NodeVolumeLimits(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """kube-scheduler v1.36, nodevolumelimits/csi.go."""

    name = "NodeVolumeLimits"

    def unbuilt_use(self, pod: Pod) -> str:
        volumes = any(v.csi or v.azure_disk or v.cinder for v in pod.spec.volumes)
        return "volume limits" if volumes else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            on(CSI_NODE, ActionType.ADD | ActionType.UPDATE, self.after_csi_node_change),
            on(POD, ActionType.DELETE, self.after_pod_deleted),
            on(PERSISTENT_VOLUME_CLAIM, ActionType.ADD, self.after_claim_added),
            on(VOLUME_ATTACHMENT, ActionType.DELETE, self.after_detached),
        ]

    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
        """A node came, or some driver takes more volumes there, whether or not it is one of the pod's."""
        if old is None:
            return queue_if(True)
        was = _limits(old)
        return queue_if(any(limit > was.get(driver, 0) for driver, limit in _limits(new).items()))

    def after_pod_deleted(self, pod: Pod, old: Pod, new: None) -> QueueingHint:
        """A pod with volumes that count went."""
        volumes = old.spec.volumes
        counts = any(v.persistent_volume_claim or v.ephemeral or migrated_driver(v) for v in volumes)
        return queue_if(counts and is_live(old))

    def after_claim_added(self, pod: Pod, old: None, new: PersistentVolumeClaim) -> QueueingHint:
        """A claim of the pod came."""
        return queue_if(is_claim_of(pod, new))

    def after_detached(self, pod: Pod, old: VolumeAttachment, new: None) -> QueueingHint:
        """A volume was detached that may be of a driver of the pod's."""
        return queue_if(
            any(
                volume.persistent_volume_claim or migrated_driver(volume) == old.spec.attacher
                for volume in pod.spec.volumes
            )
        )


def migrated_driver(volume: Volume) -> str | None:
    """The CSI driver that has taken over an inline volume, or None."""
    return next((driver for field, driver in MIGRATED.items() if getattr(volume, field) is not None), None)


def is_claim_of(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod names a claim, or it belongs to an ephemeral volume of the pod."""
    ephemeral = {f"{pod.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None}
    return claim.namespace == pod.namespace and claim.name in claim_names(pod) | ephemeral


def _limits(node: CSINode) -> dict[str, int]:
    """Driver to the number of volumes that it takes; 0 where it does not say."""
    return {one.name: (one.allocatable and one.allocatable.count) or 0 for one in node.spec.drivers}
