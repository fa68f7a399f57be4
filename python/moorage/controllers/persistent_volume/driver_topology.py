"""From which nodes a new volume is accessible: what the driver and external-provisioner make of a claim.

Source: kubernetes-csi/external-provisioner, pkg/controller/topology.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from moorage.engine.volume.claims import NO_PROVISIONER, claim_class
from moorage.engine.volume.volume_topology import MIGRATED_PROVISIONERS, UNCOUNTED_PROVISIONERS
from moorage.kube import CSINode, Node, PersistentVolumeClaim, StorageClass
from moorage.kube.model.node import HOSTNAME, ZONE
from moorage.kube.model.storage import TopologySelectorTerm
from moorage.store import ObjectClient, find_object

from .volume_plugins import VolumeOptions

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
    client : ObjectClient
        Has the cluster.
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
            return [next((one for one in _flat(allowed) if set(one) <= set(own)), own)] if own else []
        among = sorted({*_flat(allowed)} or self._of_cluster(keys), key=lambda one: (len(one), one))
        if not among or (node is not None and not own):
            return []
        if node is None:
            first = _place_of(options.pvc.name) % len(among)
        else:
            first = next((at for at, one in enumerate(among) if set(one) <= set(own)), 0)
        return (among[first:] + among[:first])[:number]

    def _keys(self, node: Node | None) -> Sequence[str]:
        """Return the labels that tell the topology: of the driver on a node, or on the first with any."""
        if self._provisioner in MIGRATED_PROVISIONERS:
            return (ZONE,)
        if node is None:
            csi_nodes: list[CSINode] = sorted(self._client.list(CSINode)[0], key=lambda one: one.name)
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
        found = (_segment(keys, node.metadata.labels) for node in self._client.list(Node)[0])
        return {one for one in found if len(one) == len(keys)}


def unknown_topologies(client: ObjectClient) -> list[str]:
    """Return a sentence for each class of a claim without a volume whose provisioner is unknown, if there are
    several nodes.

    Parameters
    ----------
    client : ObjectClient
        Has the cluster.
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
        for storage_class in sorted(classes, key=lambda one: one.name)
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
