"""The nodes that reach a volume, also one of an in-tree plugin that a CSI driver has replaced."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from msgspec.structs import replace

from moorage.kube import (
    CSINode,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Volume,
)
from moorage.kube.model.node import REGION, ZONE
from moorage.kube.model.pod import DiskVolumeSource
from moorage.kube.model.storage import PersistentVolumeSpec
from moorage.lazy import NamedTuple
from moorage.store.indexer import Indexer

from ..framework.node_masks import Mask, NodeMasks
from .claims import MIGRATED_PLUGINS, VolumeError

if TYPE_CHECKING:
    from ..framework.handle import FrameworkHandle


# ---- migration ---------------------------------------------------------------------------------------------
# In-tree volumes that CSI drivers have replaced: their volume handles, and the nodes that reach them.
#
# Source: csi-translation-lib v0.36 (TranslateInTreePVToCSI, TranslateInTreeInlineVolumeToCSI).


class InTreeVolumePlugin(NamedTuple):
    """An in-tree plugin that a CSI driver has replaced.

    Attributes
    ----------
    name : str
        The provisioner of its classes, and its name in annotations.
    zone_key : str
        The node label that the driver has for zones; "" if the topology of its volumes stays as it is.
    """

    name: str
    driver: str
    zone_key: str = ""


MIGRATED = {
    "aws_elastic_block_store": InTreeVolumePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    "gce_persistent_disk": InTreeVolumePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    "azure_disk": InTreeVolumePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "cinder": InTreeVolumePlugin(
        "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
    ),
    "portworx_volume": InTreeVolumePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
"""Plugin by field of a volume's source."""
UNCOUNTED = {
    "azure_file": InTreeVolumePlugin("kubernetes.io/azure-file", "file.csi.azure.com"),
    "vsphere_volume": InTreeVolumePlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
}
"""Plugins that a CSI driver replaces, but whose volumes kube-scheduler does not translate and not count."""
_DRIVERS_OF_DISKS = {
    field: plugin.driver for field, plugin in (MIGRATED | UNCOUNTED).items() if field != "azure_file"
}
_SHARED_TO_READ = ("gce_persistent_disk", "portworx_volume")
MIGRATED_PROVISIONERS = {plugin.name: plugin.driver for plugin in MIGRATED.values()}
"""CSI driver by provisioner of a storage class."""
UNCOUNTED_PROVISIONERS = frozenset(plugin.name for plugin in UNCOUNTED.values())

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONES_DELIMITER = "__"
AWS = "aws://"


# ---- volume handles ----------------------------------------------------------------------------------------


def migrated_driver(volume: Volume) -> str | None:
    """Return the CSI driver that replaces the plugin of an inline volume; None if the plugin is not replaced.

    Parameters
    ----------
    volume : Volume
        An inline volume of a pod.
    """
    plugins = (MIGRATED | UNCOUNTED).items()
    return next((plugin.driver for field, plugin in plugins if getattr(volume, field) is not None), None)


def driver_and_handle(volume: PersistentVolume) -> tuple[str, str]:
    """Return the CSI driver and volume handle of a persistent volume.

    Returns
    -------
    driver, handle : str
        Both "" if no CSI driver is responsible for the volume.
    """
    spec = volume.spec
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    try:
        return _migrated(spec, volume.metadata.labels)
    except VolumeError:
        return "", ""


def inline_disks(volumes: Iterable[Volume]) -> list[str]:
    """Return the disks of in-tree plugins that pods name without a claim and that are on one node at a time,
    as events call them."""
    return [
        f"{driver}-{disk.volume_id.rpartition('/')[2] or disk.pd_name or disk.disk_name or disk.volume_path}"
        for volume in volumes
        if volume.persistent_volume_claim is None
        for field, driver in _DRIVERS_OF_DISKS.items()
        if (disk := getattr(volume, field)) is not None and not (disk.read_only and field in _SHARED_TO_READ)
    ]


def is_inline_disk(name: str) -> bool:
    """Whether a name is one of `inline_disks`."""
    return name.partition("-")[0] in _DRIVERS_OF_DISKS.values()


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

    Raises
    ------
    VolumeError
        The volume cannot be translated.
    """
    try:
        return _migrated(volume, {})
    except VolumeError as error:
        raise VolumeError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _migrated(source: Volume | PersistentVolumeSpec, labels: Mapping[str, str]) -> tuple[str, str]:
    for field, plugin in MIGRATED.items():
        if (disk := getattr(source, field)) is not None:
            return plugin.driver, _handle(field, disk, labels)
    return "", ""


def _handle(field: str, disk: DiskVolumeSource, labels: Mapping[str, str]) -> str:
    """The volume handle of a disk in the zones of some labels; VolumeError if the disk has none."""
    if field == "azure_disk":
        if disk.kind is not None and disk.kind.lower() != "managed":
            raise VolumeError(f"kind({disk.kind}) is not supported in csi migration")
        return disk.disk_uri
    if field == "aws_elastic_block_store":
        return _aws_handle(disk.volume_id)
    if field != "gce_persistent_disk":
        return disk.volume_id
    zones = labels.get(BETA_ZONE) or labels.get(ZONE) or "UNSPECIFIED"
    if ZONES_DELIMITER not in zones:
        return f"projects/UNSPECIFIED/zones/{zones}/disks/{disk.pd_name}"
    region = _gce_region(zones.split(ZONES_DELIMITER))
    return f"projects/UNSPECIFIED/regions/{region}/disks/{disk.pd_name}"


def _gce_region(zones: Iterable[str]) -> str:
    """The region of zones, whose names are ``location-region-zone``."""
    regions = set()
    for zone in zones:
        if zone.count("-") != 2:
            wanted = "{locale}-{region}-{zone}"
            raise VolumeError(
                f"failed to get region from zones: zone in unexpected format, expected: {wanted}, got: {zone}"
            )
        regions.add(zone.rpartition("-")[0])
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise VolumeError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{shown}]"
        )
    return regions.pop()


def _aws_handle(volume_id: str) -> str:
    """The ID in ``aws://<zone>/<id>``, or a bare ID."""
    if not volume_id.startswith(AWS):
        return volume_id
    about = "failed to translate Kubernetes ID to EBS Volume ID"
    try:
        handle = urlsplit(volume_id).path.strip("/")
    except ValueError as error:
        raise VolumeError(f"{about} Invalid disk name ({volume_id}): {error}") from error
    if not handle.startswith("vol-") or "/" in handle:
        raise VolumeError(f"{about} Invalid format for AWS volume ({volume_id})")
    return handle


# ---- the nodes that reach a volume -------------------------------------------------------------------------


def in_tree_plugin(volume: PersistentVolume) -> InTreeVolumePlugin | None:
    """Return the in-tree plugin of a volume, if a CSI driver has replaced it."""
    spec = volume.spec
    return next((plugin for field, plugin in MIGRATED.items() if getattr(spec, field) is not None), None)


def migrated_plugins(node: CSINode | None) -> Container[str]:
    """Return the in-tree plugins that CSI drivers replace on a node."""
    return () if node is None else node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def required_affinity(volume: PersistentVolume, plugins: Container[str] = ()) -> NodeSelector | None:
    """Return the node affinity that a node must match to reach a volume; None if all nodes reach the volume.

    Where the plugin of the volume is replaced, it is that of the CSI volume: in terms about zones the label
    of the driver takes the place of Kubernetes', and zones that only labels of the volume name are required.

    Parameters
    ----------
    plugins : container of str
        The plugins that CSI drivers replace on the node.

    Raises
    ------
    VolumeError
        The volume cannot be translated.
    """
    affinity = volume.spec.node_affinity
    required = None if affinity is None else affinity.required
    plugin = in_tree_plugin(volume)
    if plugin is None or plugin.name not in plugins:
        return required
    labels = volume.metadata.labels
    try:
        _migrated(volume.spec, labels)
    except VolumeError as error:
        raise VolumeError(f"could not translate pv: {error}") from error
    return _translated(required, labels, plugin.zone_key) if plugin.zone_key else required


def _translated(
    required: NodeSelector | None, labels: Mapping[str, str], zone_key: str
) -> NodeSelector | None:
    """The required node affinity of a volume with labels, for a driver with a label for zones."""
    terms = () if required is None else required.node_selector_terms
    rules = [rule for term in terms for rule in term.match_expressions]
    known = [{rule.key for rule in rules}, labels]
    is_beta = next((key == BETA_ZONE for keys in known for key in (ZONE, BETA_ZONE) if key in keys), False)
    zone = BETA_ZONE if is_beta else ZONE
    new_keys = {BETA_REGION: REGION} if is_beta and _has_values(rules, BETA_REGION) else {}
    added: tuple[NodeSelectorRequirement, ...] = ()
    if _has_values(rules, zone):
        new_keys[zone] = zone_key
    elif zones := {name for text in labels.get(zone, "").split(ZONES_DELIMITER) if (name := text.strip())}:
        added = (NodeSelectorRequirement(key=zone_key, operator="In", values=tuple(sorted(zones))),)
    if not new_keys and not added:
        return required
    changed = [
        replace(
            term,
            match_expressions=(
                *(replace(rule, key=new_keys.get(rule.key, rule.key)) for rule in term.match_expressions),
                *added,
            ),
        )
        for term in terms or (NodeSelectorTerm(),)
    ]
    return NodeSelector(node_selector_terms=tuple(changed))


def _has_values(rules: Iterable[NodeSelectorRequirement], key: str) -> bool:
    return any(rule.key == key and rule.values for rule in rules)


# ---- volume topology ---------------------------------------------------------------------------------------
# The nodes from which each volume is accessible, for all rows of the node table at once.


class VolumeTopology:
    """The rows of the node table whose nodes reach a volume.

    Parameters
    ----------
    masks : NodeMasks
        Of that table.
    csi_nodes : Indexer of CSINode
        Which in-tree plugins CSI drivers have replaced on each node.
    """

    def __init__(self, masks: NodeMasks, csi_nodes: Indexer[CSINode]) -> None:
        self._masks, self._csi_nodes = masks, csi_nodes
        self._log = csi_nodes.follow()

    @classmethod
    def of(cls, handle: FrameworkHandle) -> VolumeTopology:
        """Make the masks for the nodes of a handle's cache."""
        return cls(handle.derived(NodeMasks.of), handle.informers.informer(CSINode).indexer)

    def mask(self, volume: PersistentVolume) -> Mask | None:
        """Return the rows whose node satisfies a volume's required node affinity.

        Returns
        -------
        (rows,) bool array, or None
            See `NodeMasks`; None if the volume has no required node affinity.

        Raises
        ------
        VolumeError
            The volume cannot be translated for the CSI driver of some node.
        """
        required, plugin = required_affinity(volume), in_tree_plugin(volume)
        mask = None if required is None else self.mask_of(required)
        migrated = None if plugin is None else self.migrated(plugin.name)
        if plugin is None or migrated is None:
            return mask
        translated = required_affinity(volume, (plugin.name,))
        if translated == required:
            return mask
        there = True if translated is None else self.mask_of(translated)
        return np.where(migrated, there, True if mask is None else mask)

    def migrated(self, plugin: str) -> Mask | None:
        """Return the rows on whose nodes a CSI driver has replaced an in-tree plugin.

        Returns
        -------
        (rows,) bool array, or None
            As `mask` returns it; None if there are none.
        """

        def names() -> Iterator[str]:
            return (node.name for node in self._csi_nodes.values() if plugin in migrated_plugins(node))

        mask = self._masks.find((plugin, self._log.head), lambda: self._masks.named(names()))
        return mask if mask.any() else None

    def mask_of(self, selector: NodeSelector) -> Mask:
        """Return the rows whose node satisfies a required node affinity, as `mask` returns it."""
        return self._masks.selected(selector, by_name=False)
