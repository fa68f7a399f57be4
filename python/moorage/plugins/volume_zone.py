"""VolumeZone: known by name; its decisions are not built yet. VolumeBinding reports pods with claims for
both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework import signing
from moorage.framework.events import (
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
from moorage.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin, SignPlugin
from moorage.objects.pod import Pod
from moorage.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

from .volume_restrictions import claim_names

TOPOLOGY_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
DELIMITER = "__"


class VolumeZone(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """kube-scheduler v1.36, volumezone/."""

    name = "VolumeZone"

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.volumes(pod)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE
        return [
            on(STORAGE_CLASS, ActionType.ADD, self.after_class_added),
            on(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(PERSISTENT_VOLUME_CLAIM, changes, self.after_claim_change),
            on(PERSISTENT_VOLUME, changes, self.after_volume_change),
        ]

    def after_class_added(self, pod: Pod, old: None, new: StorageClass) -> QueueingHint:
        """A class came whose volumes wait for their first consumer."""
        return queue_if(new.volume_binding_mode == "WaitForFirstConsumer")

    def after_claim_change(
        self, pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
    ) -> QueueingHint:
        """A claim that the pod names came or changed."""
        return queue_if(new.namespace == pod.namespace and new.name in claim_names(pod))

    def after_volume_change(
        self, pod: Pod, old: PersistentVolume | None, new: PersistentVolume
    ) -> QueueingHint:
        """A volume came, or any moved to other zones."""
        return queue_if(old is None or _topology(old) != _topology(new))


def _topology(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """The zones and regions of a volume; a label with an empty part in it does not count."""
    labels = volume.metadata.labels
    found = {}
    for key in TOPOLOGY_LABELS:
        values = frozenset(value.strip() for value in labels.get(key, "").split(DELIMITER))
        if "" not in values:
            found[key] = values
    return found
