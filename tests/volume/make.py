"""Claims, volumes and what belongs to them, from as little as a test wants to say."""

from __future__ import annotations

from typing import Any

from moorage.objects import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    DiskVolumeSource,
    EphemeralVolumeSource,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    StorageClass,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)

ZONE = "topology.kubernetes.io/zone"


def uses(read_only: bool = False, **source: str) -> Volume:
    """A volume of a pod by one source: claim, ephemeral, or a disk by what it is known by."""
    if not source:
        return Volume(name="config")
    ((kind, name),) = source.items()
    match kind:
        case "claim":
            return Volume(
                name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name)
            )
        case "ephemeral":
            return Volume(name=name, ephemeral=EphemeralVolumeSource())
        case "gce":
            return Volume(gce_persistent_disk=DiskVolumeSource(pd_name=name, read_only=read_only))
        case "aws":
            return Volume(aws_elastic_block_store=DiskVolumeSource(volume_id=name))
        case "azure":
            return Volume(azure_disk=DiskVolumeSource(disk_uri=name))
        case "iscsi":
            return Volume(iscsi=DiskVolumeSource(iqn=name, read_only=read_only))
        case "rbd":
            return Volume(rbd=DiskVolumeSource(monitors=("m",), pool="pool", image=name, read_only=read_only))
        case "csi":
            return Volume(csi=DiskVolumeSource(driver=name))
    raise ValueError(kind)


def claim(
    name: str,
    of: str = "",
    of_class: str | None = None,
    modes: tuple[str, ...] = (),
    owners: tuple[OwnerReference, ...] = (),
) -> PersistentVolumeClaim:
    """A claim of namespace default, with the volume `of`."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default", owner_references=owners),
        spec=PersistentVolumeClaimSpec(volume_name=of, storage_class_name=of_class, access_modes=modes),
    )


def volume(name: str, source: tuple[str, str] | str | None = None, zone: str = "") -> PersistentVolume:
    """A volume of a CSI driver, by driver and handle, or the GCE disk "disk"."""
    found: dict[str, Any] = {}
    if isinstance(source, tuple):
        found["csi"] = CSIPersistentVolumeSource(driver=source[0], volume_handle=source[1])
    elif source == "gce":
        found["gce_persistent_disk"] = DiskVolumeSource(pd_name="disk")
    labels = {ZONE: zone} if zone else {}
    return PersistentVolume(metadata=ObjectMeta(name=name, labels=labels), spec=PersistentVolumeSpec(**found))


def storage_class(name: str, provisioner: str = "d0", mode: str | None = "Immediate") -> StorageClass:
    """A storage class."""
    return StorageClass(metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode=mode)


def csi_node(name: str, **limits: int | None) -> CSINode:
    """A CSINode by driver and limit."""
    drivers = tuple(
        CSINodeDriver(name=driver, allocatable=None if limit is None else VolumeNodeResources(count=limit))
        for driver, limit in limits.items()
    )
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def attachment(name: str, attacher: str, on: str, of: str | None) -> VolumeAttachment:
    """A VolumeAttachment of the volume `of` to a node."""
    source = VolumeAttachmentSource(persistent_volume_name=of)
    spec = VolumeAttachmentSpec(attacher=attacher, node_name=on, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec)
