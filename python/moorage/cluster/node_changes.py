"""Changes of nodes: copies are added; nodes are removed, tainted, labelled, cordoned and drained."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.controllers.api_server import admission_of, admitted, may_delete
from moorage.controllers.cluster_controllers import NO_CONTROLLER, with_cordon
from moorage.engine.preemption.eviction_units import priority_of
from moorage.engine.volume.claims import reaches_node, storage_capacity, volume_class
from moorage.engine.volume.volume_binder import has_access
from moorage.errors import InputError, located, shorten
from moorage.kube import (
    CSINode,
    LabelSelector,
    Node,
    NodeClaim,
    Object,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    Pod,
    PodDisruptionBudget,
    Taint,
)
from moorage.kube.admission.chain import Admission
from moorage.kube.admission.request import POD_COLLECTOR, RefusedError, eviction
from moorage.kube.admission.validate_object import check_labels, validate
from moorage.kube.model.node import EFFECTS, HOSTNAME, REGION, ZONE, NodeSpec, is_of_a_moment
from moorage.kube.model.pod import MIRROR_ANNOTATION
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.storage import CSIStorageCapacity
from moorage.kube.model.workload import DaemonSet
from moorage.kube.read.object_defaults import defaults
from moorage.kube.workloads.daemon_pods import pinned_spec, should_run
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.kube.workloads.missing_pods import daemon_spec, new_pod
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import ApiError, NotFoundError, ObjectClient, evict_pod, find_object

from .change import DAEMON, MIRROR, Change, delete_object, updated, with_own_uids

# ---- node copies -------------------------------------------------------------------------------------------
#
# New nodes like another one: what they take over of its labels, taints, devices and storage.

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
        return {csi_node.name: csi_node for csi_node in self._client.list(CSINode)[0]}

    @cached_property
    def _place_keys(self) -> frozenset[str]:
        """The region, and the labels by which drivers tell where volumes can be, and volumes where they
        are."""
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
        return frozenset(({REGION} | of_drivers | of_volumes) - _PLACES)

    # ---- the node ------------------------------------------------------------------------------------------

    def copy(self, like: Node, name: str, labels: Mapping[str, str] = {}) -> Node:
        """Return a new node like another one.

        Parameters
        ----------
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
        old = {mine[label] for label in (ZONE, OLD_ZONE) if label in mine}
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
        if key.endswith("/region") or any(
            node.metadata.labels.get(key) == value and node.metadata.labels.get(ZONE) not in (None, *old)
            for node in self._nodes
        ):
            return value, ""
        return None, f"lack the label {key}, whose value in the zone {zone} is unknown"

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
            if new.capacity is not None and used:
                room, largest = str(Quantity(new.capacity) + Quantity(used)), new.maximum_volume_size
                if largest is not None and Quantity(largest) >= Quantity(new.capacity):
                    largest = room  # what limited the largest volume limits it no longer
                new = replace(new, capacity=room, maximum_volume_size=largest)
            yield new


def _of_copy(capacity: CSIStorageCapacity, own: Container[str], node: str) -> CSIStorageCapacity:
    """Return a capacity whose topology has the name of a new node in those labels that tell the node."""
    topology = capacity.node_topology or LabelSelector()
    labels = {key: node if key in own else value for key, value in topology.match_labels.items()}
    expressions = tuple(
        replace(rule, values=(node,)) if rule.operator == "In" and rule.key in own else rule
        for rule in topology.match_expressions
    )
    return replace(capacity, node_topology=LabelSelector(match_labels=labels, match_expressions=expressions))


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
    for slice_ in slices_of(slices, like):
        owners = (OwnerReference(api_version="v1", kind="Node", name=node),)
        meta = ObjectMeta(labels=slice_.metadata.labels, annotations=slice_.metadata.annotations)
        pool = replace(slice_.spec.pool, name=_renamed(slice_.spec.pool.name, like, node))
        spec = replace(slice_.spec, node_name=node, pool=pool)
        name = _renamed(slice_.metadata.name, like, node)
        yield replace(slice_, metadata=replace(meta, name=name, owner_references=owners), spec=spec)


def _renamed(text: str, old: str, new: str) -> str:
    """Return a name with the name of a node in it replaced."""
    return text.replace(old, new) if old in text else f"{new}-{text}"


# ---- node changes ------------------------------------------------------------------------------------------
#
# Adds, removes, taints and labels nodes.

MAX_NODES = 200_000
"""The most nodes that one call adds."""
_TAINT = r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?(?P<minus>-)?"


def add_copies(
    client: ObjectClient, count: int, like: Node, labels: Mapping[str, str], is_template: bool
) -> Change:
    """Create copies of a node: see `ClusterChanges.add_nodes`.

    Parameters
    ----------
    labels : mapping of str to str
        Of the copies, besides those of the node.
    is_template : bool
        Whether `like` is no node of the cluster.
    """
    if not 0 <= count <= MAX_NODES:
        raise InputError(f"{count} nodes to add: must be between 0 and {MAX_NODES}")
    if HOSTNAME in labels:
        raise InputError(f"the label {HOSTNAME} of a new node is its name")
    base = like.metadata.name or like.metadata.generate_name.rstrip("-.") or "node"
    names, copies, new = _new_names(client, base), NodeCopies(client), list[Object]()
    for _ in range(count):
        copy = copies.copy(like, next(names), labels)
        for obj in (copy, *(() if is_template else copies.parts(like, copy))):
            validate(obj)
            new += defaults([obj])
    created = tuple([client.create(obj).full_name for obj in with_own_uids(client, new)])
    return Change(created=created, notes=tuple(copies.doubts(like, labels)) if count else ())


def _new_names(client: ObjectClient, base: str) -> Iterator[str]:
    """Yield names that no node has: the base and a number."""
    taken = {node.name for node in client.list(Node)[0]}
    number = 0
    while True:
        number += 1
        suffix = f"-{number}"
        name = base[: 63 - len(suffix)].rstrip("-.") + suffix  # it is the value of a label, too
        if name not in taken:
            yield name


def _parts_of(client: ObjectClient, node: str) -> Iterator[Object]:
    """Yield the objects that describe a node besides its Node, and its claim, which Karpenter deletes with
    it."""
    if (csi_node := find_object(client, CSINode, node)) is not None:
        yield csi_node
    yield from slices_of(client.list(ResourceSlice)[0], node)
    yield from (claim for claim in client.list(NodeClaim)[0] if claim.status.node_name == node)


def delete_nodes(client: ObjectClient, nodes: Sequence[Node], pods: Iterable[Pod]) -> Change:
    """Delete nodes with the objects that describe them and the pods on them."""
    deleted: list[str] = []
    for node in nodes:
        gone = [node, *_parts_of(client, node.name)]
        for obj in gone:
            if (
                obj.metadata.finalizers
            ):  # of Karpenter or k3s, whose controllers take them off once it is gone
                client.update(replace(obj, metadata=replace(obj.metadata, finalizers=())))
            with suppress(NotFoundError):  # it was being deleted, and only its finalizers kept it
                delete_object(client, obj)
                deleted.append(obj.full_name)
    for pod in pods:
        with suppress(NotFoundError):  # a replica without an object, or deleted with its node
            if may_delete(client, pod, POD_COLLECTOR):
                client.delete(Pod, pod.name, pod.namespace)
                deleted.append(pod.full_name)
    return Change(deleted=tuple(deleted))


# ---- taints ------------------------------------------------------------------------------------------------


def tainted(node: Node, changes: Sequence[str]) -> Node:
    """Return a node with changed taints: see `ClusterChanges.taint`."""
    taints = list(node.spec.taints)
    for change in changes:
        match = re.fullmatch(_TAINT, change)
        if match is None:
            raise InputError(f'taint "{shorten(change, 80)}" is not KEY=VALUE:EFFECT, KEY:EFFECT- or KEY-')
        key, effect = match["key"], match["effect"] or ""
        if match["minus"] or (key.endswith("-") and not effect and match["value"] is None):
            taints = _removed(taints, key.removesuffix("-"), effect)
        else:
            new = Taint(key=key, value=match["value"] or "", effect=effect)
            with located(obj=f"taint {shorten(change, 80)}"):
                if new.effect not in EFFECTS:
                    raise InputError(f'effect must be one of {", ".join(EFFECTS)}, not "{new.effect}"')
                check_labels({new.key: new.value})
            same = [at for at, taint in enumerate(taints) if (taint.key, taint.effect) == (key, effect)]
            at = same[0] if same else len(taints)
            taints[at : at + 1] = [new]
    return replace(node, spec=replace(node.spec, taints=tuple(taints)))


def _removed(taints: Sequence[Taint], key: str, effect: str) -> list[Taint]:
    """Return the taints without those of a key, and of an effect unless it is empty."""
    left = [taint for taint in taints if taint.key != key or effect not in ("", taint.effect)]
    if len(left) == len(taints):
        raise InputError(f'taint "{shorten(key, 80)}{f":{effect}" if effect else ""}" not found')
    return left


# ---- labels ------------------------------------------------------------------------------------------------


def labelled(obj: Object, changes: Sequence[str]) -> Object:
    """Return an object with changed labels: see `ClusterChanges.label`."""
    labels = dict(obj.metadata.labels)
    for change in changes:
        key, equals, value = change.partition("=")
        if equals:
            labels[key] = value
        elif key.endswith("-"):
            labels.pop(key[:-1], None)
        else:
            raise InputError(f'label "{shorten(change, 80)}" is not KEY=VALUE or KEY-')
    changed = replace(obj, metadata=replace(obj.metadata, labels=labels))
    validate(changed)
    return changed


# ---- drain -------------------------------------------------------------------------------------------------
#
# Drains nodes as ``kubectl drain`` does, and cordons them.

LOCAL_DATA = "has local data (emptyDir)"
LASTING = frozenset({NO_CONTROLLER, LOCAL_DATA, DAEMON, MIRROR})
"""Reasons to stay that time does not change; budgets may allow an eviction later."""


def stays(pod: Pod) -> bool:
    """Whether a pod goes with its node: it is of a DaemonSet, or static."""
    owner = pod.metadata.controller()
    return MIRROR_ANNOTATION in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet")


def mark_unschedulable(client: ObjectClient, nodes: Iterable[Node], value: bool) -> tuple[str, ...]:
    """Cordon or uncordon nodes, and return those that changed."""
    changed = []
    for node in nodes:
        if node.spec.unschedulable != value:
            updated(client, node, with_cordon(node, value))
            changed.append(node.full_name)
    return tuple(changed)


def evict_pods(
    client: ObjectClient,
    pods: Iterable[Pod],
    why_not: Callable[[Pod], str],
    grace_of: Callable[[Pod], int | None],
    respect_budgets: bool = True,
) -> Change:
    """Evict pods. One that has a grace period, as its node does not report, is being deleted then, and stays.

    Parameters
    ----------
    why_not : callable
        Returns why a pod stays; "" if it is evicted.
    grace_of : callable
        Returns the grace period of a pod; None for what the server chooses.
    respect_budgets : bool
        Whether a pod whose disruption budget allows no disruption stays.
    """
    deleted, kept = [], {}
    budgets = BudgetSelectors(client.list(PodDisruptionBudget)[0] if respect_budgets else ())
    for pod in pods:
        why = why_not(pod)
        if not why:
            try:
                if respect_budgets:
                    admitted(client, eviction(pod))
                    evict_pod(client, pod, grace_of(pod), budgets)
                else:
                    delete_object(client, pod, grace_of(pod))
            except NotFoundError:  # a replica without an object
                why = NO_CONTROLLER
            except ApiError as error:
                why = str(error)
        if why:
            kept[pod.full_name] = why
        else:
            deleted.append(pod.full_name)
    return Change(deleted=tuple(deleted), kept=kept)


def reason_to_stay(pod: Pod, force: bool = False, delete_local_data: bool = True) -> str:
    """Return why ``kubectl drain --ignore-daemonsets`` leaves a pod on its node; "" if it is evicted.

    Parameters
    ----------
    force : bool
        Whether a pod without a controller is evicted.
    delete_local_data : bool
        Whether a pod with an emptyDir volume is evicted.
    """
    owner = pod.metadata.controller()
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return MIRROR
    if pod.status.phase in FINISHED:
        return ""
    if owner is not None and owner.kind == "DaemonSet":
        return DAEMON
    if owner is None and not force:
        return NO_CONTROLLER
    if not delete_local_data and any(volume.empty_dir is not None for volume in pod.spec.volumes):
        return LOCAL_DATA
    return ""


# ---- arriving daemons --------------------------------------------------------------------------------------
#
# The pods that DaemonSets put on a node once it is new or changed, before any other pod.


class ArrivingDaemons:
    """Makes the pods of DaemonSets for a node, as their controller does.

    Parameters
    ----------
    client : ObjectClient
        Has the DaemonSets, and what the admission of their pods depends on.
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    @cached_property
    def _sets(self) -> list[DaemonSet]:
        listed: list[DaemonSet] = self._client.list(DaemonSet)[0]
        return [daemon_set for daemon_set in listed if daemon_set.metadata.deletion_timestamp is None]

    @cached_property
    def _admission(self) -> Admission:
        return admission_of(self._client)

    def pods_for(self, node: Node, before: Node | None) -> list[Pod]:
        """Return the pods that DaemonSets make for a node, in the order in which they are placed.

        Parameters
        ----------
        before : Node or None
            The node before its change; None for a new node.

        Returns
        -------
        list of Pod
            By descending priority, without those that the API server refuses.
        """
        return sorted(self._new_pods(node, before), key=lambda pod: -priority_of(pod))

    def _new_pods(self, node: Node, before: Node | None) -> Iterator[Pod]:
        for daemon_set in self._sets:
            spec = daemon_spec(daemon_set)
            if not should_run(spec, node) or (before is not None and should_run(spec, before)):
                continue
            pod = new_pod(
                daemon_set,
                daemon_set.spec.template,
                name=f"{daemon_set.name}-{node.name}",
                spec=pinned_spec(spec, node.name),
            )
            with suppress(RefusedError):
                pod = self._admission.admit(pod)
                yield replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.key}"))
