"""Volume plugins: interfaces and registry (pkg/volume/plugins.go), and one in memory, as drivers work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from operator import attrgetter
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume.claims import (
    NO_PROVISIONER,
    PROVISIONED_BY,
    VolumeError,
    allows_topology,
    claim_class,
    parse_bytes,
)
from moorage.engine.volume.volume_binder import has_access, is_sufficient
from moorage.engine.volume.volume_topology import MIGRATED_PROVISIONERS, UNCOUNTED_PROVISIONERS
from moorage.kube import (
    CSINode,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from moorage.kube.field_errors import aggregate
from moorage.kube.model import storage
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.storage import CSIStorageCapacity, TopologySelectorTerm
from moorage.saved_fields import SavedFields
from moorage.store import NotFoundError, ObjectClient, find_object
from moorage.store.protocol import overwrite


class VolumeInUseError(VolumeError):
    """A volume cannot be deleted because it is in use; this is not a failure of the volume."""


class VolumeOptions(Struct, frozen=True):
    """The volume to be provisioned.

    Attributes
    ----------
    pvc : PersistentVolumeClaim
        The claim for which the volume is provisioned.
    parameters : mapping of str to str
        Parameters of the storage class.
    cloud_tags : mapping of str to str
        Tags of the storage asset.
    """

    pv_name: str
    pvc: PersistentVolumeClaim
    persistent_volume_reclaim_policy: str
    mount_options: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    cluster_name: str = ""
    cloud_tags: Mapping[str, str] = msgspec.field(default_factory=dict)


class PluginHost(Protocol):
    """The host of volume plugins: the controller."""

    def get_kube_client(self) -> ObjectClient:
        """Return the controller's client."""
        ...

    def get_event_recorder(self) -> EventRecorder:
        """Return the controller's event recorder."""
        ...


class Provisioner(Protocol):
    """Provisions one volume."""

    def provision(
        self, selected_node: Node | None, allowed_topologies: Sequence[TopologySelectorTerm]
    ) -> PersistentVolume:
        """Provision the volume.

        Parameters
        ----------
        selected_node : Node or None
            Node from which the volume must be accessible, if there is one.
        allowed_topologies : sequence of TopologySelectorTerm
            ``allowedTopologies`` of the class; empty allows every node.

        Returns
        -------
        PersistentVolume
            The volume; without a name it gets the one of `VolumeOptions`.
        """


class Deleter(Protocol):
    """Deletes one volume."""

    def delete(self) -> None:
        """Delete the storage asset; an asset that does not exist is not an error.

        Raises
        ------
        VolumeInUseError
            The volume is in use; the controller tries again.
        """


class RecycleEventRecorder(Protocol):
    """Receives the progress of a recycler."""

    def __call__(self, type: str, message: str) -> None: ...


@runtime_checkable
class VolumePlugin(Protocol):
    """A kind of storage.

    Its capabilities are the protocols that it implements: `ProvisionableVolumePlugin`,
    `DeletableVolumePlugin`, `RecyclableVolumePlugin`. The controller reports exceptions and tries again.
    """

    @property
    def name(self) -> str:
        """The provisioner's name in storage classes."""

    def init(self, host: PluginHost) -> None:
        """Prepare the plugin; called once before it is used.

        Parameters
        ----------
        host : PluginHost
            The host of the plugin.
        """

    def can_support(self, volume: PersistentVolume) -> bool:
        """Whether a volume is of this kind."""

    def supports_mount_option(self) -> bool:
        """Whether volumes may be mounted with options."""


@runtime_checkable
class ProvisionableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that provisions volumes."""

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        """Return a provisioner of one volume."""


@runtime_checkable
class DeletableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that deletes volumes."""

    def new_deleter(self, volume: PersistentVolume) -> Deleter:
        """Return a deleter of one volume."""


@runtime_checkable
class RecyclableVolumePlugin(VolumePlugin, Protocol):
    """A plugin that scrubs volumes for reuse."""

    def recycle(self, name: str, volume: PersistentVolume, recorder: RecycleEventRecorder) -> None:
        """Scrub a volume.

        Parameters
        ----------
        recorder : callable
            Receives type and message of events.
        """


class VolumePlugins:
    """The plugins of a controller, by name.

    Raises
    ------
    VolumeError
        Two plugins have one name, or one cannot be used; names every such failure.
    """

    def __init__(self, plugins: Iterable[VolumePlugin], host: PluginHost) -> None:
        self._plugins: dict[str, VolumePlugin] = {}
        errors = []
        for plugin in plugins:
            if plugin.name in self._plugins:
                errors.append(f'volume plugin "{plugin.name}" was registered more than once')
                continue
            try:
                plugin.init(host)
            except Exception as error:
                errors.append(str(error))
            else:
                self._plugins[plugin.name] = plugin
        if errors:
            raise VolumeError(aggregate(errors))

    def provisionable(self, name: str) -> ProvisionableVolumePlugin:
        """Return the plugin of a name, which must provision volumes.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot provision.
        """
        plugin = self._named(name)
        if isinstance(plugin, ProvisionableVolumePlugin):
            return plugin
        raise VolumeError("no provisionable volume plugin matched")

    def deletable(self, name: str) -> DeletableVolumePlugin:
        """Return the plugin of a name, which must delete volumes.

        Raises
        ------
        VolumeError
            There is no such plugin, or it cannot delete.
        """
        return _deletable(self._named(name))

    def deletable_for(self, volume: PersistentVolume) -> DeletableVolumePlugin:
        """Return the plugin that supports a volume, which must delete volumes.

        Raises
        ------
        VolumeError
            There is none or more than one such plugin, or it cannot delete.
        """
        return _deletable(self._of(volume))

    def recyclable_for(self, volume: PersistentVolume) -> RecyclableVolumePlugin:
        """Return the plugin that supports a volume, which must recycle volumes.

        Raises
        ------
        VolumeError
            There is none or more than one such plugin, or it cannot recycle.
        """
        plugin = self._of(volume)
        if isinstance(plugin, RecyclableVolumePlugin):
            return plugin
        raise VolumeError("no recyclable volume plugin matched")

    def _named(self, name: str) -> VolumePlugin:
        if name not in self._plugins:
            raise VolumeError(f"no volume plugin matched name: {name}")
        return self._plugins[name]

    def _of(self, volume: PersistentVolume) -> VolumePlugin:
        able = [plugin for plugin in self._plugins.values() if plugin.can_support(volume)]
        if not able:
            raise VolumeError("no volume plugin matched")
        if len(able) > 1:
            raise VolumeError(f"multiple volume plugins matched: {','.join(plugin.name for plugin in able)}")
        return able[0]


def _deletable(plugin: VolumePlugin) -> DeletableVolumePlugin:
    if isinstance(plugin, DeletableVolumePlugin):
        return plugin
    raise VolumeError("no deletable volume plugin matched")


# ---- driver topology ---------------------------------------------------------------------------------------
#
# From which nodes a new volume is accessible: what the driver and external-provisioner make of a claim.
#
# Source: kubernetes-csi/external-provisioner, pkg/controller/topology.go.

Segment = tuple[tuple[str, str], ...]
"""Labels of nodes with their values, sorted; a volume is accessible from the nodes that have all of them."""

OF_ONE_NODE = frozenset(
    {
        "rancher.io/local-path",
        "openebs.io/local",
        "local.csi.openebs.io",
        "zfs.csi.openebs.io",
        "topolvm.io",
        "topolvm.cybozu.com",
        "hostpath.csi.k8s.io",
        "microk8s.io/hostpath",
        "kubevirt.io/hostpath-provisioner",
        "kubevirt.io.hostpath-provisioner",
        "lvm.csi.metal-stack.io",
        "directpv-min-io",
    }
)
"""Provisioners whose volumes are on one node, also where no CSINode has their driver."""


class DriverTopology:
    """Tells from which nodes the volumes of one provisioner are accessible, by the CSINodes of a cluster.

    Parameters
    ----------
    provisioner : str
        Its name in storage classes.
    """

    def __init__(self, client: ObjectClient, provisioner: str) -> None:
        self._client = client
        self._provisioner = provisioner

    def segments(
        self, options: VolumeOptions, node: Node | None, allowed: Sequence[TopologySelectorTerm]
    ) -> list[Segment]:
        """Return the segments from which a new volume is accessible.

        Drivers make a volume in the segment that external-provisioner prefers: that of the selected node, or
        one that follows from the name of the claim, so that the volumes of a StatefulSet are spread.

        Parameters
        ----------
        allowed : sequence of TopologySelectorTerm
            The ``allowedTopologies`` of the class.

        Returns
        -------
        list of Segment
            Of several, each is enough; none stands for all nodes.
        """
        keys = self._keys(node) or [
            expression.key for term in allowed for expression in term.match_label_expressions
        ]
        number = _number_of_segments(options.parameters)
        own = _segment(keys, node.metadata.labels) if node is not None else ()
        if node is not None and number == 1:
            holding = (segment for segment in _flat(allowed) if set(segment) <= set(own))
            return [next(holding, own)] if own else []
        segments = {*_flat(allowed)} or self._of_cluster(keys)
        among = sorted(segments, key=lambda segment: (len(segment), segment))
        if not among or (node is not None and not own):
            return []
        if node is None:
            first = _place_of(options.pvc.name) % len(among)
        else:
            first = next((at for at, segment in enumerate(among) if set(segment) <= set(own)), 0)
        return (among[first:] + among[:first])[:number]

    def _keys(self, node: Node | None) -> Sequence[str]:
        """Return the labels that tell the topology: of the driver on a node, or on the first with any."""
        if self._provisioner in MIGRATED_PROVISIONERS:
            return (ZONE,)
        if node is None:
            csi_nodes: list[CSINode] = sorted(self._client.list(CSINode)[0], key=attrgetter("name"))
        else:
            csi_node = find_object(self._client, CSINode, node.name)
            csi_nodes = [] if csi_node is None else [csi_node]
        drivers = (driver for csi_node in csi_nodes for driver in csi_node.spec.drivers)
        keys = next(
            (
                driver.topology_keys
                for driver in drivers
                if driver.name == self._provisioner and driver.topology_keys
            ),
            (),
        )
        return keys or ((HOSTNAME,) if self._provisioner in OF_ONE_NODE else ())

    def _of_cluster(self, keys: Sequence[str]) -> set[Segment]:
        """Return the segments of all nodes with all the labels."""
        if not keys:
            return set()
        segments = (_segment(keys, node.metadata.labels) for node in self._client.list(Node)[0])
        return {segment for segment in segments if len(segment) == len(keys)}


def unknown_topologies(client: ObjectClient) -> list[str]:
    """Return a sentence for each class of a claim without a volume whose provisioner is unknown, if there are
    several nodes.
    """
    unbound = (claim for claim in client.list(PersistentVolumeClaim)[0] if not claim.spec.volume_name)
    names = {claim_class(claim) for claim in unbound}
    classes = [
        storage_class
        for storage_class in client.list(StorageClass)[0]
        if storage_class.name in names and not storage_class.allowed_topologies
    ]
    if not classes or len(client.list(Node)[0]) < 2:
        return []
    drivers = {driver.name for csi_node in client.list(CSINode)[0] for driver in csi_node.spec.drivers}
    known = {"", NO_PROVISIONER, *UNCOUNTED_PROVISIONERS, *MIGRATED_PROVISIONERS, *OF_ONE_NODE, *drivers}
    return [
        f'New volumes of the StorageClass "{storage_class.name}" count as accessible from every node, '
        f"because no CSINode in the input has the driver {storage_class.provisioner}."
        for storage_class in sorted(classes, key=attrgetter("name"))
        if storage_class.provisioner not in known
    ]


def _segment(keys: Iterable[str], labels: Mapping[str, str]) -> Segment:
    return tuple(sorted((key, labels[key]) for key in set(keys) if key in labels))


def _flat(allowed: Iterable[TopologySelectorTerm]) -> Iterator[Segment]:
    """Yield the segments that the topologies of a class allow: one for each combination of values."""
    for term in allowed:
        pairs = [
            [(expression.key, value) for value in expression.values]
            for expression in term.match_label_expressions
        ]
        yield from (tuple(sorted(combination)) for combination in product(*pairs) if combination)


def _number_of_segments(parameters: Mapping[str, str]) -> int:
    """Return in how many segments a driver makes a volume: GCE has disks in two zones, Azure in all."""
    given = {key.lower(): value.lower() for key, value in parameters.items()}
    if given.get("replication-type") == "regional-pd":
        return 2
    is_zone_redundant = any(given.get(key, "").endswith("_zrs") for key in ("skuname", "storageaccounttype"))
    return 1 << 30 if is_zone_redundant else 1


def _place_of(claim: str) -> int:
    """Return a number that spreads volumes: FNV-1 of the StatefulSet in a claim's name, and the ordinal."""
    name, dash, ordinal = claim.rpartition("-")
    place = 0
    if dash and ordinal.isascii() and ordinal.isdecimal() and int(ordinal) < 1 << 32:
        place, claim = int(ordinal), name.rpartition("-")[2]
    hashed = 0x811C9DC5
    for byte in claim.encode():
        hashed = hashed * 0x01000193 % (1 << 32) ^ byte
    return (hashed + place) % (1 << 32)


# ---- storage capacities ------------------------------------------------------------------------------------
#
# Storage capacities that CSI drivers publish, as the volumes that are provisioned use them up.


class StorageCapacities:
    """Changes the CSIStorageCapacity of a class and a topology segment with the volumes in it.

    external-provisioner asks the driver for the capacity again after a volume was made or deleted; here the
    size of the volume is what changes. Other classes, which may share a pool of the driver, keep theirs.
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    def take(self, storage_class: str, node: Node, size: int) -> str:
        """Take the room of a new volume.

        Parameters
        ----------
        node : Node
            From which the volume is accessible.
        size : int
            Bytes.

        Returns
        -------
        str
            The ``namespace/name`` of the capacity; "" if none is published for the class and the node.

        Raises
        ------
        VolumeError
            No capacity suffices.
        """
        listed: list[CSIStorageCapacity] = self._client.list(CSIStorageCapacity)[0]
        near = [
            capacity
            for capacity in listed
            if capacity.storage_class_name == storage_class and has_access(node, capacity)
        ]
        fitting = [capacity for capacity in near if is_sufficient(capacity, Quantity(size))]
        if near and not fitting:
            raise VolumeError(f'not enough capacity of class "{storage_class}" for node "{node.name}"')
        for capacity in fitting[:1]:
            self._change(capacity, -size)
            return capacity.key
        return ""

    def give_back(self, key: str, size: int) -> None:
        """Give the room of a volume back that is gone.

        Parameters
        ----------
        key : str
            The result of `take`.
        size : int
            Bytes.
        """
        namespace, _, name = key.partition("/")
        with suppress(NotFoundError):
            self._change(self._client.get(CSIStorageCapacity, name, namespace), size)

    def _change(self, capacity: CSIStorageCapacity, by: int) -> None:
        """Change what is left; no volume may be larger than that."""
        if capacity.capacity is None:
            return
        left = Quantity(capacity.capacity) + Quantity(by)
        left = left if left.sign() > 0 else Quantity("0")
        largest = capacity.maximum_volume_size
        if largest is not None and Quantity(largest) > left:
            largest = str(left)
        overwrite(self._client, replace(capacity, capacity=str(left), maximum_volume_size=largest))


# ---- in memory plugin --------------------------------------------------------------------------------------
#
# A volume plugin in memory, for simulations and tests.


class InMemoryProvisioner(SavedFields):
    """A volume plugin that provisions, deletes and recycles volumes in memory.

    Parameters
    ----------
    name : str
        Provisioner name in storage classes.
    topology_keys : sequence of str
        Node labels. A volume provisioned for a node is accessible from the nodes with equal values of these
        labels, or from every node if there are none. A volume provisioned without a node is accessible by the
        class's ``allowedTopologies``.
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

    fields = ("volumes", "segments")

    def __init__(
        self,
        name: str,
        *,
        topology_keys: Sequence[str] = (),
        published: StorageCapacities | None = None,
        topology: DriverTopology | None = None,
    ) -> None:
        self.name = name
        self.volumes: dict[str, int] = {}
        self.segments: dict[str, str] = {}
        self._published = published
        self._topology_keys, self._topology = tuple(topology_keys), topology

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
        return True

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
            The node is not in the allowed topologies, or no capacity that is published suffices.
        """
        claim = options.pvc.spec
        requested = claim.resources.requests.get("storage", 0)
        if node is not None and not allows_topology(allowed, node.metadata.labels):
            raise VolumeError(f'node "{node.name}" is not in the allowed topologies')
        size = parse_bytes(requested)
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
