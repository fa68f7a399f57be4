"""In-tree volumes that CSI drivers have replaced, and their volume handles (csi-translation-lib)."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from moorage.objects import PersistentVolume, Volume
from moorage.objects.model.pod import DiskVolumeSource
from moorage.objects.model.storage import PersistentVolumeSpec

MIGRATED = {
    "aws_elastic_block_store": "ebs.csi.aws.com",
    "gce_persistent_disk": "pd.csi.storage.gke.io",
    "azure_disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
}
"""CSI driver by field of a volume's source."""
MIGRATED_PROVISIONERS = {
    "kubernetes.io/aws-ebs": MIGRATED["aws_elastic_block_store"],
    "kubernetes.io/gce-pd": MIGRATED["gce_persistent_disk"],
    "kubernetes.io/azure-disk": MIGRATED["azure_disk"],
    "kubernetes.io/cinder": MIGRATED["cinder"],
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""CSI driver by provisioner of a storage class."""
UNCOUNTED_PROVISIONERS = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Provisioners that a CSI driver replaces, but whose volumes are not counted for the driver."""

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
ZONES_DELIMITER = "__"
AWS = "aws://"


def migrated_driver(volume: Volume) -> str | None:
    """Return the CSI driver that replaces the plugin of an inline volume.

    Parameters
    ----------
    volume : Volume
        An inline volume of a pod.

    Returns
    -------
    str or None
        None if the plugin is not replaced.
    """
    return inline_driver_and_handle(volume)[0] or None


def driver_and_handle(volume: PersistentVolume) -> tuple[str, str]:
    """Return the CSI driver and volume handle of a persistent volume.

    Parameters
    ----------
    volume : PersistentVolume
        The volume.

    Returns
    -------
    driver, handle : str
        Both "" if no CSI driver is responsible for the volume.
    """
    spec = volume.spec
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    return _migrated(spec, volume.metadata.labels)


def inline_driver_and_handle(volume: Volume) -> tuple[str, str]:
    """Return the CSI driver and volume handle of an inline volume.

    Parameters
    ----------
    volume : Volume
        An inline volume of a pod.

    Returns
    -------
    driver, handle : str
        Both "" if no CSI driver is responsible for the volume.
    """
    return _migrated(volume, {})


def _migrated(source: Volume | PersistentVolumeSpec, labels: Mapping[str, str]) -> tuple[str, str]:
    for field, driver in MIGRATED.items():
        if (disk := getattr(source, field)) is not None:
            return driver, _handle(field, disk, labels)
    return "", ""


def _handle(field: str, disk: DiskVolumeSource, labels: Mapping[str, str]) -> str:
    """The volume handle of a disk in the zones of some labels; "" if it cannot be determined."""
    if field == "azure_disk":
        return disk.disk_uri
    if field == "cinder":
        return disk.volume_id
    if field == "aws_elastic_block_store":
        return _aws_handle(disk.volume_id)
    zones = next((labels[label] for label in ZONE_LABELS if labels.get(label)), "")
    names = zones.split(ZONES_DELIMITER) if zones else ["UNSPECIFIED"]
    if len(names) == 1:
        return f"projects/UNSPECIFIED/zones/{names[0]}/disks/{disk.pd_name}"
    regions = {name.rpartition("-")[0] for name in names}
    if len(regions) != 1:
        return ""
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{disk.pd_name}"


def _aws_handle(volume_id: str) -> str:
    """The ID in ``aws://<zone>/<id>``, or a bare ID."""
    if not volume_id.startswith(AWS):
        return volume_id
    handle = urlsplit(volume_id).path.strip("/")
    return handle if handle.startswith("vol-") and "/" not in handle else ""
