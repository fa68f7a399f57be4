"""Volumes, claims and a controller for one synchronization, as the tables of the controller's tests use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.framework.handle import EventRecorder
from moorage.objects.meta import Object, ObjectMeta
from moorage.objects.node import Node
from moorage.objects.pod import PersistentVolumeClaimSpec, Pod, ResourceRequirements
from moorage.objects.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from moorage.store import InformerFactory, ObjectStore
from moorage.volume.constants import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
)
from moorage.volume.controller import ControllerParameters, PersistentVolumeController, new_controller
from moorage.volume.in_memory_plugin import InMemoryProvisioner

T = TypeVar("T", bound=Object)

NS = "default"
PLUGIN = "kubernetes.io/mock-volume"
EXTERNAL = "vendor.com/my-volume"

BBC = {BOUND_BY_CONTROLLER: "yes"}
BC = {BIND_COMPLETED: "yes"}
DP = {PROVISIONED_BY: PLUGIN}
DP_EXTERNAL = {PROVISIONED_BY: EXTERNAL}
NODE1 = {SELECTED_NODE: "node1"}


def made_by(name: str = PLUGIN) -> dict[str, str]:
    """What a claim says whose volume is to be provisioned by that one."""
    return {BETA_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name}


CLASSES = (
    StorageClass(metadata=ObjectMeta(name="gold"), provisioner=PLUGIN, volume_binding_mode="Immediate"),
    StorageClass(metadata=ObjectMeta(name="silver"), provisioner=PLUGIN, volume_binding_mode="Immediate"),
    StorageClass(metadata=ObjectMeta(name="external"), provisioner=EXTERNAL, volume_binding_mode="Immediate"),
    StorageClass(
        metadata=ObjectMeta(name="unknown"),
        provisioner="kubernetes.io/unknown",
        volume_binding_mode="Immediate",
    ),
    StorageClass(
        metadata=ObjectMeta(name="mount"),
        provisioner=PLUGIN,
        mount_options=("foo", "bar"),
        volume_binding_mode="Immediate",
    ),
    StorageClass(
        metadata=ObjectMeta(name="wait"), provisioner=PLUGIN, volume_binding_mode="WaitForFirstConsumer"
    ),
    StorageClass(
        metadata=ObjectMeta(name="external-wait"),
        provisioner=EXTERNAL,
        volume_binding_mode="WaitForFirstConsumer",
    ),
    StorageClass(metadata=ObjectMeta(name="no-mode"), provisioner=PLUGIN),
)


def new_volume(
    name: str,
    size: str,
    bound_uid: str = "",
    bound_claim: str = "",
    phase: str = "",
    policy: str = "Retain",
    class_name: str = "",
    *annotations: Mapping[str, str],
    **spec: Any,
) -> PersistentVolume:
    """A volume of access mode ReadWriteOnce; bound to a claim where one is named."""
    meta, status = {}, {}
    if "labels" in spec:
        meta["labels"] = spec.pop("labels")
    if "message" in spec:
        status["message"] = spec.pop("message")
    if "deletion" in spec:
        meta["deletion_timestamp"] = spec.pop("deletion")
        meta["finalizers"] = ("kubernetes.io/pv-protection",)
    reference = None
    if bound_claim:
        reference = ObjectReference(
            kind="PersistentVolumeClaim", api_version="v1", namespace=NS, name=bound_claim, uid=bound_uid
        )
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=f"{name}-uid", annotations=_merged(annotations), **meta),
        spec=PersistentVolumeSpec(
            **{
                "capacity": {"storage": size},
                "access_modes": ("ReadWriteOnce",),
                "claim_ref": reference,
                "persistent_volume_reclaim_policy": policy,
                "storage_class_name": class_name,
                **spec,
            }
        ),
        status=PersistentVolumeStatus(phase=phase, **status),
    )


def new_claim(
    name: str,
    uid: str,
    size: str,
    bound_volume: str = "",
    phase: str = "Pending",
    class_name: str | None = None,
    *annotations: Mapping[str, str],
    capacity: str | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim of access mode ReadWriteOnce. A Bound one shows access modes and capacity, as large as it asks
    for or as `capacity` says."""
    status = PersistentVolumeClaimStatus(phase=phase)
    if phase == "Bound":
        shown = {"storage": capacity or size}
        status = replace(status, access_modes=("ReadWriteOnce",), capacity=shown)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace=NS, uid=uid, labels=dict(labels or {}), annotations=_merged(annotations)
        ),
        spec=PersistentVolumeClaimSpec(
            **{
                "access_modes": ("ReadWriteOnce",),
                "resources": ResourceRequirements(requests={"storage": size}),
                "volume_name": bound_volume,
                "storage_class_name": class_name,
                **spec,
            }
        ),
        status=status,
    )


def _merged(annotations: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {key: value for one in annotations for key, value in one.items()}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A store with objects, informers that know of them, and a controller.

    Parameters
    ----------
    objects : Object
        What is in the store.
    plugins : sequence, optional
        By default one plugin, `PLUGIN`.
    client : callable, optional
        Makes the controller's client of the store.
    """

    def __init__(
        self,
        *objects: Object,
        plugins: Sequence[Any] | None = None,
        client: Callable[[ObjectStore], Any] = lambda store: store,
        provisioning: bool = True,
        migrated: Mapping[str, str] | None = None,
        sync_period: float = 15.0,
    ) -> None:
        self.clock = Clock()
        self.store = ObjectStore()
        for obj in (*CLASSES, *objects):
            self.store.create(obj)
        self.plugin = InMemoryProvisioner(PLUGIN)
        self.plugins = [self.plugin] if plugins is None else plugins
        self.client = client(self.store)
        self.provisioning = provisioning
        self.migrated = migrated
        self.sync_period = sync_period
        self.recorder = EventRecorder()
        self.controller = self.restart()

    def restart(self) -> PersistentVolumeController:
        """Another controller, which knows only what the store has."""
        self.informers = InformerFactory(self.store)
        self.controller = new_controller(
            ControllerParameters(
                kube_client=self.client,
                sync_period=self.sync_period,
                volume_plugins=self.plugins,
                cluster_name="cluster",
                volume_informer=self.informers.informer(PersistentVolume),
                claim_informer=self.informers.informer(PersistentVolumeClaim),
                class_informer=self.informers.informer(StorageClass),
                pod_informer=self.informers.informer(Pod),
                node_informer=self.informers.informer(Node),
                event_recorder=self.recorder,
                enable_dynamic_provisioning=self.provisioning,
            ),
            clock=self.clock,
            migrated_plugins=self.migrated,
        )
        return self.controller

    def volumes(self) -> list[PersistentVolume]:
        return [plain(volume) for volume in self.store.list(PersistentVolume)[0]]

    def claims(self) -> list[PersistentVolumeClaim]:
        return [plain(claim) for claim in self.store.list(PersistentVolumeClaim)[0]]

    def events(self) -> list[str]:
        """Every event so far, as ``type reason note``."""
        return [f"{event.type} {event.reason} {event.note}" for event in self.recorder.events]


def plain(obj: T) -> T:
    """An object without what the store fills in: versions and times; for a volume without the UID of one that
    was made."""
    meta = replace(obj.metadata, resource_version="", creation_timestamp=None, deletion_grace_period_seconds=None)
    if isinstance(obj, PersistentVolume):
        meta = replace(meta, uid=f"{obj.name}-uid")
        reference = obj.spec.claim_ref
        if reference is not None:
            reference = replace(reference, resource_version="")
        return replace(obj, metadata=meta, spec=replace(obj.spec, claim_ref=reference))
    return replace(obj, metadata=meta)
