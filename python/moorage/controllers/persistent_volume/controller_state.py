"""State that the loops of the controller share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.objects.workloads.ownership import FINISHED
from moorage.store.informers.lister import Lister
from moorage.store.protocol import ObjectClient
from moorage.volume.binding.claims import T
from moorage.volume.binding.find import claim_key as used_claim
from moorage.volume.constants import MIGRATED_TO

from .controller_cache import ControllerCache, VolumeCache
from .controller_metrics import OperationTimes
from .controller_writes import Writes
from .operations import Operations
from .provisioning import VolumePlugins
from .work_queue import WorkQueue

PODS_BY_CLAIM = "pod-pvc-index"
"""The index that a controller adds to its informer of pods."""
IN_TREE = "kubernetes.io/"
"""How the names of the plugins begin that work inside of the controller."""


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The components of a controller.

    Attributes
    ----------
    claims, volumes
        The controller's own caches.
    claim_queue, volume_queue : WorkQueue
        Keys of the objects to be synchronized.
    plugins : VolumePlugins
        Those that make, delete and recycle volumes inside of the controller.
    migrated_plugins : mapping
        Name of each in-tree plugin whose work a CSI driver has taken over, to the driver's name.
    """

    client: ObjectClient
    claims: ControllerCache[PersistentVolumeClaim]
    volumes: VolumeCache
    claim_lister: Lister[PersistentVolumeClaim]
    volume_lister: Lister[PersistentVolume]
    class_lister: Lister[StorageClass]
    pod_lister: Lister[Pod]
    node_lister: Lister[Node]
    claim_queue: WorkQueue
    volume_queue: WorkQueue
    operations: Operations
    times: OperationTimes
    writes: Writes
    plugins: VolumePlugins
    migrated_plugins: Mapping[str, str]
    cluster_name: str
    enable_dynamic_provisioning: bool


def with_migration(obj: T, key: str, migrated: Mapping[str, str]) -> T:
    """Set the migration annotation of an object: the CSI driver that replaces the provisioner named in the
    annotation `key`. Without such a driver the annotation is removed."""
    annotations = obj.metadata.annotations
    if key not in annotations:
        return obj
    driver, held = migrated.get(annotations[key]), annotations.get(MIGRATED_TO)
    if driver is None and held == annotations[key]:  # the provisioner is the driver itself
        return obj
    new = {name: value for name, value in annotations.items() if name != MIGRATED_TO}
    if driver is not None:
        new[MIGRATED_TO] = driver
    return obj if new == annotations else replace(obj, metadata=replace(obj.metadata, annotations=new))


def claims_of(pod: Pod) -> Iterator[str]:
    """Keys of the claims that a pod uses."""
    return (key for volume in pod.spec.volumes if (key := used_claim(pod, volume)))


def pods_that_use(lister: Lister[Pod], claim: str) -> list[Pod]:
    """The pods that use a claim and have not finished, by name."""
    pods = [one for one in lister.by_index(PODS_BY_CLAIM, claim) if one.status.phase not in FINISHED]
    return sorted(pods, key=lambda one: one.name)


def claim_key(reference: ObjectReference) -> str:
    """Key of the claim that a volume refers to."""
    return f"{reference.namespace}/{reference.name}"
