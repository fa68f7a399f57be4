"""Claims, volumes and what belongs to them, from as little as a test wants to say."""

from __future__ import annotations

from typing import Any

from tests import make as kit
from tests.make import ZONE as ZONE

from moorage.kube import (
    CSINode,
    DiskVolumeSource,
    EphemeralVolumeSource,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    StorageClass,
    Volume,
    VolumeAttachment,
)


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
    """A claim of namespace default that asks for nothing, with the volume `of`."""
    spec: Any = {"accessModes": modes, "resources": {}, "metadata": {"ownerReferences": owners}}
    return kit.claim(name, of_class, of, **spec)


def volume(name: str, source: tuple[str, str] | str | None = None, zone: str = "") -> PersistentVolume:
    """A volume of a CSI driver, by driver and handle, or the GCE disk "disk"."""
    spec: Any = {"capacity": {}, "accessModes": [], "metadata": {"labels": {ZONE: zone} if zone else {}}}
    if isinstance(source, tuple):
        spec["csi"] = {"driver": source[0], "volumeHandle": source[1]}
    elif source == "gce":
        spec["gcePersistentDisk"] = {"pdName": "disk"}
    return kit.volume(name, **spec)


def storage_class(name: str, provisioner: str = "d0", mode: str | None = "Immediate") -> StorageClass:
    """A storage class."""
    return kit.storage_class(name, provisioner, volumeBindingMode=mode)


def csi_node(name: str, **limits: int | None) -> CSINode:
    """A CSINode by driver and limit."""
    drivers = [
        {"name": driver, "allocatable": None if limit is None else {"count": limit}}
        for driver, limit in limits.items()
    ]
    made: CSINode = kit.make("CSINode", name, {"drivers": drivers})
    return made


def attachment(name: str, attacher: str, on: str, of: str | None) -> VolumeAttachment:
    """A VolumeAttachment of the volume `of` to a node."""
    spec = {"attacher": attacher, "nodeName": on, "source": {"persistentVolumeName": of}}
    made: VolumeAttachment = kit.make("VolumeAttachment", name, spec)
    return made
