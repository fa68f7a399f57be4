"""VolumeBinding: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework import signing
from moorage.framework.events import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    on,
    queue_if,
)
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
)
from moorage.objects.pod import Pod
from moorage.objects.quantity import parse_value
from moorage.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)

from .node_volume_limits import is_claim_of

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"


class VolumeBinding(
    UnbuiltPlugin,
    PreFilterPlugin,
    FilterPlugin,
    ReservePlugin,
    PreBindPlugin,
    PreScorePlugin,
    ScorePlugin,
    EnqueueExtensions,
    SignPlugin,
):
    """kube-scheduler v1.36, volumebinding/."""

    name = "VolumeBinding"
    default_args = {"bindTimeoutSeconds": 600}

    def unbuilt_use(self, pod: Pod) -> str:
        claims = any(v.persistent_volume_claim or v.ephemeral for v in pod.spec.volumes)
        return "persistent volume claims" if claims else ""

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE
        return [
            on(STORAGE_CLASS, changes, self.after_class_change),
            on(PERSISTENT_VOLUME_CLAIM, changes, self.after_claim_change),
            on(PERSISTENT_VOLUME, changes),
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(CSI_NODE, changes, self.after_csi_node_change),
            on(CSI_DRIVER, ActionType.UPDATE, self.after_driver_change),
            on(CSI_STORAGE_CAPACITY, changes, self.after_capacity_change),
        ]

    def after_class_change(self, pod: Pod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
        """A class came, or allows other topologies."""
        return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> QueueingHint:
        """A claim of the pod came or changed."""
        return queue_if(is_claim_of(pod, new))

    def after_csi_node_change(self, pod: Pod, old: CSINode | None, new: CSINode) -> QueueingHint:
        """A node came, or other plugins are migrated there."""
        was, now = (one and one.metadata.annotations.get(MIGRATED_PLUGINS, "") for one in (old, new))
        return queue_if(old is None or was != now)

    def after_driver_change(self, pod: Pod, old: CSIDriver, new: CSIDriver) -> QueueingHint:
        """A driver of the pod's inline volumes tells of its capacity no longer."""
        is_used = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
        return queue_if(is_used and old.spec.storage_capacity and not new.spec.storage_capacity)

    def after_capacity_change(
        self, pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity
    ) -> QueueingHint:
        """There is more room, as far as one is told."""
        was, now = (None if one is None else _limit(one) for one in (old, new))
        return queue_if(old is None or (now is not None and (was is None or was < now)))


def _limit(capacity: CSIStorageCapacity) -> int | None:
    """The size that a volume may have."""
    given = capacity.maximum_volume_size
    given = capacity.capacity if given is None else given
    return None if given is None else parse_value(given)
