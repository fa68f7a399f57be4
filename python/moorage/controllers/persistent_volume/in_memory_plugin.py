"""A volume plugin in memory, for simulations and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from moorage.engine.volume.claims import (
    PROVISIONED_BY,
    VolumeError,
    allows_topology,
    claim_class,
    parse_bytes,
)
from moorage.kube import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
)
from moorage.kube.model import storage

from .driver_topology import DriverTopology
from .storage_capacities import StorageCapacities
from .volume_plugins import PluginHost, RecycleEventRecorder, VolumeOptions


class InMemoryProvisioner:
    """A volume plugin that provisions, deletes and recycles volumes in memory.

    Parameters
    ----------
    name : str
        Provisioner name in storage classes.
    topology_keys : sequence of str
        Node labels. A volume provisioned for a node is accessible from the nodes with equal values of these
        labels, or from every node if there are none. A volume provisioned without a node is accessible by the
        class's ``allowedTopologies``.
    capacity : int, optional
        Bytes that can be provisioned in total; no limit by default.
    mount_options : bool
        Whether volumes may be mounted with options.
    published : StorageCapacities, optional
        The capacities that volumes for selected nodes use up; by default none.
    topology : DriverTopology, optional
        Tells from which nodes volumes are accessible, in place of `topology_keys`.

    Attributes
    ----------
    volumes : dict of str to int
        Size in bytes by name of the storage asset.
    segments : dict of str to str
        The published capacity that a storage asset has used, if any.
    """

    def __init__(
        self,
        name: str,
        *,
        topology_keys: Sequence[str] = (),
        capacity: int | None = None,
        mount_options: bool = True,
        published: StorageCapacities | None = None,
        topology: DriverTopology | None = None,
    ) -> None:
        self.name = name
        self.volumes: dict[str, int] = {}
        self.segments: dict[str, str] = {}
        self._published = published
        self._topology_keys, self._topology = tuple(topology_keys), topology
        self._capacity = capacity
        self._mount_options = mount_options

    def init(self, host: PluginHost) -> None:
        """Prepare the plugin; it needs no preparation.

        Parameters
        ----------
        host : PluginHost
            The host of the plugin.
        """

    def can_support(self, volume: PersistentVolume) -> bool:
        """Whether the CSI driver or the provisioner of a volume is this plugin."""
        provisioner = volume.metadata.annotations.get(PROVISIONED_BY)
        csi = volume.spec.csi
        return self.name == (provisioner or (csi.driver if csi else ""))

    def supports_mount_option(self) -> bool:
        """Whether volumes may be mounted with options."""
        return self._mount_options

    def new_provisioner(self, options: VolumeOptions) -> InMemoryVolume:
        """Return a provisioner of one volume."""
        return InMemoryVolume(self, options.pv_name, options)

    def new_deleter(self, volume: PersistentVolume) -> InMemoryVolume:
        """Return a deleter of one volume."""
        return InMemoryVolume(self, volume.name, None)

    def recycle(self, name: str, volume: PersistentVolume, recorder: RecycleEventRecorder) -> None:
        """Scrub a volume; volumes in memory need no scrubbing.

        Parameters
        ----------
        recorder : RecycleEventRecorder
            Receives type and message of events.
        """

    def make(
        self, options: VolumeOptions, node: Node | None, allowed: Sequence[storage.TopologySelectorTerm]
    ) -> PersistentVolume:
        """Provision a volume of the size that its claim requests.

        Parameters
        ----------
        allowed : sequence of TopologySelectorTerm
            The ``allowedTopologies`` of the class.

        Raises
        ------
        VolumeError
            The node is not in the allowed topologies, or the capacity is exhausted.
        """
        claim = options.pvc.spec
        requested = claim.resources.requests.get("storage", 0)
        if node is not None and not allows_topology(allowed, node.metadata.labels):
            raise VolumeError(f'node "{node.name}" is not in the allowed topologies')
        size = parse_bytes(requested)
        if self._capacity is not None and sum(self.volumes.values()) + size > self._capacity:
            raise VolumeError("not enough capacity")
        if self._published is not None and node is not None:
            segment = self._published.take(claim_class(options.pvc), node, size)
            self.segments |= {options.pv_name: segment} if segment else {}
        self.volumes[options.pv_name] = size
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name),
            spec=storage.PersistentVolumeSpec(
                capacity={"storage": requested},
                access_modes=claim.access_modes,
                volume_mode=claim.volume_mode,
                volume_attributes_class_name=claim.volume_attributes_class_name,
                persistent_volume_reclaim_policy=options.persistent_volume_reclaim_policy,
                mount_options=options.mount_options,
                node_affinity=self._affinity(options, node, allowed),
                csi=storage.CSIPersistentVolumeSource(driver=self.name, volume_handle=options.pv_name),
            ),
        )

    def remove(self, name: str) -> None:
        """Delete a volume; unknown volumes are ignored.

        Parameters
        ----------
        name : str
            Name of the storage asset.
        """
        size, segment = self.volumes.pop(name, 0), self.segments.pop(name, "")
        if segment and self._published is not None:
            self._published.give_back(segment, size)

    def _affinity(
        self, options: VolumeOptions, node: Node | None, allowed: Sequence[storage.TopologySelectorTerm]
    ) -> storage.VolumeNodeAffinity | None:
        topologies: list[dict[str, tuple[str, ...]]]
        of_driver = [] if self._topology is None else self._topology.segments(options, node, allowed)
        if of_driver:
            topologies = [{key: (value,) for key, value in segment} for segment in of_driver]
        elif node is None:
            topologies = [
                {expression.key: expression.values for expression in term.match_label_expressions}
                for term in allowed
            ]
        else:
            labels = node.metadata.labels
            topologies = [{key: (labels[key],) for key in self._topology_keys if key in labels}]
        terms = tuple(_term(labels) for labels in topologies if labels)
        return storage.VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else None


class InMemoryVolume(Struct, frozen=True):
    """The provisioner and deleter of one volume of an `InMemoryProvisioner`."""

    plugin: InMemoryProvisioner
    name: str
    options: VolumeOptions | None

    def provision(
        self, selected_node: Node | None, allowed_topologies: Sequence[storage.TopologySelectorTerm]
    ) -> PersistentVolume:
        if self.options is None:
            raise VolumeError(f'volume "{self.name}" is to be deleted, not made')
        return self.plugin.make(self.options, selected_node, allowed_topologies)

    def delete(self) -> None:
        self.plugin.remove(self.name)


def _term(labels: Mapping[str, tuple[str, ...]]) -> NodeSelectorTerm:
    expressions = (
        NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in labels.items()
    )
    return NodeSelectorTerm(match_expressions=tuple(expressions))
