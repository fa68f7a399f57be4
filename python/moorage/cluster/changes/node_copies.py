"""New nodes like another one: what they take over of its labels, taints, devices and storage."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.engine.volume.claims import reaches_node, storage_capacity, volume_class
from moorage.engine.volume.volume_binder import has_access
from moorage.errors import InputError, shorten
from moorage.kube import CSINode, LabelSelector, Node, ObjectMeta, OwnerReference, PersistentVolume
from moorage.kube.model.node import HOSTNAME, ZONE, NodeSpec, is_of_a_moment
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.storage import CSIStorageCapacity
from moorage.store import ObjectClient

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_PLACES = frozenset({HOSTNAME, ZONE, OLD_ZONE})
Part = CSINode | ResourceSlice | CSIStorageCapacity


def parse_copy(text: str) -> tuple[str, dict[str, str]]:
    """Return the name of the node to copy, and the labels that its copies get.

    Parameters
    ----------
    text : str
        ``NODE[,zone=ZONE][,LABEL=VALUE…]``.

    Raises
    ------
    InputError
        Something is no label with a value, or is given twice.
    """
    name, *pairs = text.split(",")
    labels: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = ZONE if key == "zone" else key
        if not (key and equals) or (key == ZONE and not value):
            raise InputError(f'"{shorten(pair, 80)}" is not zone=ZONE or LABEL=VALUE', obj=shorten(text, 80))
        if key in labels:
            raise InputError(f"the label {key} is given twice", obj=shorten(text, 80))
        labels[key] = value
    return name, labels


class NodeCopies:
    """Copies nodes of a cluster, and the objects that describe them.

    A copy is another node: labels by which volumes are bound to places tell its own place, it has none of the
    taints and conditions of a moment, and its storage is its own.

    Parameters
    ----------
    client : ObjectClient
        Has the cluster.
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    @cached_property
    def _nodes(self) -> list[Node]:
        return self._client.list(Node)[0]

    @cached_property
    def _volumes(self) -> list[PersistentVolume]:
        return self._client.list(PersistentVolume)[0]

    @cached_property
    def _capacities(self) -> list[CSIStorageCapacity]:
        return self._client.list(CSIStorageCapacity)[0]

    @cached_property
    def _slices(self) -> list[ResourceSlice]:
        return self._client.list(ResourceSlice)[0]

    @cached_property
    def _csi_nodes(self) -> dict[str, CSINode]:
        return {one.name: one for one in self._client.list(CSINode)[0]}

    @cached_property
    def _place_keys(self) -> frozenset[str]:
        """The labels by which drivers tell where volumes can be, and volumes where they are."""
        of_drivers = {
            key
            for csi_node in self._csi_nodes.values()
            for driver in csi_node.spec.drivers
            for key in driver.topology_keys
        }
        affinities = (volume.spec.node_affinity for volume in self._volumes)
        required = (
            affinity.required
            for affinity in affinities
            if affinity is not None and affinity.required is not None
        )
        terms = (term for selector in required for term in selector.node_selector_terms)
        of_volumes = {rule.key for term in terms for rule in term.match_expressions}
        return frozenset((of_drivers | of_volumes) - _PLACES)

    # ---- the node ------------------------------------------------------------------------------------------

    def copy(self, like: Node, name: str, labels: Mapping[str, str] = {}) -> Node:
        """Return a new node like another one.

        Parameters
        ----------
        name : str
            Of the new node.
        labels : mapping of str to str
            Labels that the new node has in any case.
        """
        return Node(
            metadata=ObjectMeta(
                name=name, labels=self._labels(like, name, labels)[0], annotations=like.metadata.annotations
            ),
            spec=NodeSpec(taints=tuple(taint for taint in like.spec.taints if not is_of_a_moment(taint))),
            status=replace(like.status, volumes_attached=(), conditions=()),
        )

    def doubts(self, like: Node, labels: Mapping[str, str] = {}) -> list[str]:
        """Return what moorage cannot know of copies, and a user may tell.

        Parameters
        ----------
        labels : mapping of str to str
            Labels that are told.

        Returns
        -------
        list of str
            Sentences.
        """
        copy = self.copy(like, f"{like.name}-1", labels)
        _, doubts = self._labels(like, copy.name, labels)
        capacities = *self._capacities, *self.storage(like, copy)
        reached = {capacity.storage_class_name for capacity in capacities if has_access(copy, capacity)}
        for name in sorted({capacity.storage_class_name for capacity in self._capacities} - reached):
            doubts.append(
                f'How much storage of the class "{name}" copies of {like.name} have is unknown, because no '
                "CSIStorageCapacity tells it: no volume of the class is made on them."
            )
        return doubts

    def _labels(self, like: Node, name: str, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the labels of a copy, and doubts about them."""
        labels, doubts = {**like.metadata.labels, **given, HOSTNAME: name}, list[str]()
        zone = given.get(ZONE, "")
        if zone and OLD_ZONE in labels:
            labels[OLD_ZONE] = given.get(OLD_ZONE, zone)
        for key in sorted(self._place_keys.intersection(like.metadata.labels).difference(given)):
            value, doubt = self._value(like, key, zone)
            if value is None:
                del labels[key]
            else:
                labels[key] = name if value == HOSTNAME else value
            if doubt:
                doubts.append(f"Copies of {like.name} {doubt}; give them their own with {key}=VALUE.")
        return labels, doubts

    def _value(self, like: Node, key: str, zone: str) -> tuple[str | None, str]:
        """Return the value of a label that tells places on copies: `HOSTNAME` for their own name, None for no
        label; and a doubt, or ""."""
        mine, value = like.metadata.labels, like.metadata.labels[key]
        csi_node = self._csi_nodes.get(like.name)
        ids = {driver.node_id for driver in csi_node.spec.drivers} if csi_node is not None else set[str]()
        if value and value in {like.name, mine.get(HOSTNAME), *ids}:
            return HOSTNAME, ""
        old = {mine[one] for one in (ZONE, OLD_ZONE) if one in mine}
        if not zone or zone in old:
            near = [
                node.metadata.labels.get(key)
                for node in self._nodes
                if node.name != like.name and node.metadata.labels.get(ZONE) == mine.get(ZONE)
            ]
            is_odd = any(near) and value not in near
            doubt = f"keep its label {key}={value}, which no other node of the zone has"
            return value, doubt if is_odd else ""
        if value in old or (not old and key.endswith("/zone")):
            return zone, ""
        others = {
            node.metadata.labels[key]
            for node in self._nodes
            if node.metadata.labels.get(ZONE) == zone and key in node.metadata.labels
        }
        if len(others) == 1:
            return others.pop(), ""
        if key.endswith("/region") or self._is_everywhere(key, value, old):
            return value, ""
        return None, f"lack the label {key}, whose value in the zone {zone} is unknown"

    def _is_everywhere(self, key: str, value: str, old: set[str]) -> bool:
        """Whether nodes of other zones than the old ones have the value of a label, too."""
        return any(
            node.metadata.labels.get(key) == value and node.metadata.labels.get(ZONE) not in (None, *old)
            for node in self._nodes
        )

    # ---- what describes it ---------------------------------------------------------------------------------

    def parts(self, like: Node, copy: Node) -> Iterator[Part]:
        """Yield the objects that describe a copy besides its Node."""
        if (csi_node := self._csi_nodes.get(like.name)) is not None:
            meta = ObjectMeta(
                name=copy.name, labels=csi_node.metadata.labels, annotations=csi_node.metadata.annotations
            )
            drivers = tuple(replace(driver, node_id=copy.name) for driver in csi_node.spec.drivers)
            yield replace(csi_node, metadata=meta, spec=replace(csi_node.spec, drivers=drivers))
        yield from slices_for(self._slices, like.name, copy.name)
        yield from self.storage(like, copy)

    def storage(self, like: Node, copy: Node) -> Iterator[CSIStorageCapacity]:
        """Yield the storage capacities that a copy has of its own, because the other node has such.

        An empty node has what is left on the other one, and the volumes of the class there. What nodes share,
        such as the storage of a zone, is there already, or unknown.
        """
        own = {key for key, value in copy.metadata.labels.items() if value == copy.name}
        for capacity in self._capacities:
            new = _of_copy(capacity, own, copy.name)
            if new.node_topology == capacity.node_topology or not (
                has_access(like, capacity) and has_access(copy, new)
            ):
                continue
            used = sum(
                storage_capacity(volume)
                for volume in self._volumes
                if volume_class(volume) == capacity.storage_class_name
                and reaches_node(volume, like.metadata.labels)
                and not reaches_node(volume, copy.metadata.labels)
            )
            name = _renamed(capacity.name, like.name, copy.name)
            new = replace(new, metadata=ObjectMeta(name=name, namespace=capacity.namespace))
            yield _with_more(new, used)


def _of_copy(one: CSIStorageCapacity, own: Container[str], node: str) -> CSIStorageCapacity:
    """Return a capacity whose topology has the name of a new node in those labels that tell the node."""
    topology = one.node_topology or LabelSelector()
    labels = {key: node if key in own else value for key, value in topology.match_labels.items()}
    expressions = tuple(
        replace(rule, values=(node,)) if rule.operator == "In" and rule.key in own else rule
        for rule in topology.match_expressions
    )
    return replace(one, node_topology=LabelSelector(match_labels=labels, match_expressions=expressions))


def _with_more(one: CSIStorageCapacity, bytes_: int) -> CSIStorageCapacity:
    """Return a capacity with more room; what limited the largest volume limits it no longer."""
    if one.capacity is None or not bytes_:
        return one
    room = str(Quantity(one.capacity) + Quantity(bytes_))
    largest = one.maximum_volume_size
    is_limited = largest is not None and Quantity(largest) >= Quantity(one.capacity)
    return replace(one, capacity=room, maximum_volume_size=room if is_limited else largest)


# ---- devices ---------------------------------------------------------------------------------------------


def slices_of(slices: Iterable[ResourceSlice], node: str) -> Iterator[ResourceSlice]:
    """Yield the slices that publish devices of one node."""
    return (slice_ for slice_ in slices if slice_.spec.node_name == node)


def slices_for(slices: Iterable[ResourceSlice], like: str, node: str) -> Iterator[ResourceSlice]:
    """Yield equal slices for a new node.

    Parameters
    ----------
    like, node : str
        Names of the node that has the slices, and of the new one.
    """
    for one in slices_of(slices, like):
        yield _slice_for(one, like, node)


def _slice_for(part: ResourceSlice, old: str, node: str) -> ResourceSlice:
    owners = (OwnerReference(api_version="v1", kind="Node", name=node),)
    meta = ObjectMeta(labels=part.metadata.labels, annotations=part.metadata.annotations)
    pool = replace(part.spec.pool, name=_renamed(part.spec.pool.name, old, node))
    spec = replace(part.spec, node_name=node, pool=pool)
    name = _renamed(part.metadata.name, old, node)
    return replace(part, metadata=replace(meta, name=name, owner_references=owners), spec=spec)


def _renamed(text: str, old: str, new: str) -> str:
    """Return a name with the name of a node in it replaced."""
    return text.replace(old, new) if old in text else f"{new}-{text}"
