"""State that the loops of the controller share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from moorage.framework.plugin.handle import EventRecorder
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.objects.workloads.ownership import FINISHED
from moorage.store.informers.informer import Informer
from moorage.store.informers.lister import Lister
from moorage.store.protocol import ObjectClient
from moorage.volume.binding.claims import T
from moorage.volume.binding.find import claim_key as used_claim
from moorage.volume.constants import MIGRATED_TO

from .controller_cache import ControllerCache, VolumeCache
from .controller_metrics import OperationTimes
from .controller_writes import Writes
from .operations import Operations
from .provisioning import VolumePlugin, VolumePlugins
from .work_queue import WorkQueue

PODS_BY_CLAIM = "pod-pvc-index"
"""The index that a controller adds to its informer of pods."""
IN_TREE = "kubernetes.io/"
"""How the names of the plugins begin that work inside of the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParameters:
    """The parameters of a `PersistentVolumeController`.

    Attributes
    ----------
    kube_client : ObjectClient
        Where it writes.
    sync_period : float
        Seconds after which every claim and every volume is looked at again; 0 is never.
    volume_plugins : sequence of VolumePlugin
        Those that make, delete and recycle volumes.
    cluster_name : str
        Told to plugins that make volumes.
    volume_informer, claim_informer, class_informer, pod_informer, node_informer : Informer
        What it knows. Whoever has them runs them.
    event_recorder : EventRecorder or None
        Where it reports; None makes one.
    enable_dynamic_provisioning : bool
        Whether volumes are made for claims that no volume suits.
    """

    kube_client: ObjectClient
    volume_informer: Informer[PersistentVolume]
    claim_informer: Informer[PersistentVolumeClaim]
    class_informer: Informer[StorageClass]
    pod_informer: Informer[Pod]
    node_informer: Informer[Node]
    sync_period: float = 15.0
    volume_plugins: Sequence[VolumePlugin] = ()
    cluster_name: str = ""
    event_recorder: EventRecorder | None = None
    enable_dynamic_provisioning: bool = False


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

    parameters: ControllerParameters
    claims: ControllerCache[PersistentVolumeClaim]
    volumes: VolumeCache
    claim_queue: WorkQueue
    volume_queue: WorkQueue
    operations: Operations
    times: OperationTimes
    writes: Writes
    plugins: VolumePlugins
    migrated_plugins: Mapping[str, str]


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
