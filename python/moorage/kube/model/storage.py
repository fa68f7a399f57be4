"""Volumes, claims, storage classes and CSI objects (core/v1, storage.k8s.io/v1)."""

from msgspec import field

from .meta import (
    Int32,
    LabelSelector,
    Object,
    QuantityLike,
    Resources,
    Struct,
)
from .pod import DiskVolumeSource, NodeSelector, PersistentVolumeClaimSpec

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of a volume or claim: its class; takes precedence over the field."""


class TopologySelectorLabelRequirement(Struct, frozen=True):
    """A node label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """Requirements on node labels of which all must be met."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """A storage class."""

    kind: str = "StorageClass"
    api_version: str = "storage.k8s.io/v1"
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CSIPersistentVolumeSource(Struct, frozen=True):
    """The CSI driver and handle of a volume."""

    driver: str = ""
    volume_handle: str = ""


class ObjectReference(Struct, frozen=True):
    """A reference to an object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(Struct, frozen=True):
    """The nodes from which a volume is accessible."""

    required: NodeSelector | None = None


class LocalVolumeSource(Struct, frozen=True):
    """A directory or disk of one node."""

    path: str = ""


class PersistentVolumeSpec(Struct, frozen=True):
    """Spec of a persistent volume."""

    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str = ""
    mount_options: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: DiskVolumeSource | None = None
    aws_elastic_block_store: DiskVolumeSource | None = None
    azure_disk: DiskVolumeSource | None = None
    cinder: DiskVolumeSource | None = None
    portworx_volume: DiskVolumeSource | None = None
    vsphere_volume: DiskVolumeSource | None = None
    iscsi: DiskVolumeSource | None = None
    fc: DiskVolumeSource | None = None
    local: LocalVolumeSource | None = None
    host_path: LocalVolumeSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """Status of a persistent volume."""

    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(Object, frozen=True):
    """A persistent volume."""

    kind: str = "PersistentVolume"
    api_version: str = "v1"
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """Status of a persistent volume claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Resources = {}


class PersistentVolumeClaim(Object, frozen=True):
    """A persistent volume claim."""

    kind: str = "PersistentVolumeClaim"
    api_version: str = "v1"
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeResources(Struct, frozen=True):
    """The number of volumes of a driver that a node can attach."""

    count: Int32 | None = None


class CSINodeDriver(Struct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    """The CSI drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """The CSI drivers of a node."""

    kind: str = "CSINode"
    api_version: str = "storage.k8s.io/v1"
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    """Spec of a CSI driver."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    kind: str = "CSIDriver"
    api_version: str = "storage.k8s.io/v1"
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """The storage capacity of a class in a topology segment."""

    kind: str = "CSIStorageCapacity"
    api_version: str = "storage.k8s.io/v1"
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityLike | None = None
    maximum_volume_size: QuantityLike | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    """The volume of an attachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """The volume, node and driver of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """The attachment of a volume to a node."""

    kind: str = "VolumeAttachment"
    api_version: str = "storage.k8s.io/v1"
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


KINDS = (
    *(PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode),
    *(CSIDriver, CSIStorageCapacity, VolumeAttachment),
)
"""The kinds of this module that files are decoded to."""
