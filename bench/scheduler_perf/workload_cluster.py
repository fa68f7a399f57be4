"""The cluster of a workload: nodes, namespaces and other objects in the scheduler's store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec.structs import replace

from moorage.answers.scheduler import Scheduler
from moorage.engine.volume.claims import MIGRATED_PLUGINS
from moorage.errors import located
from moorage.kube import CSINode, Namespace, Node, Object, ObjectMeta, Pod, Resources
from moorage.kube.model.node import HOSTNAME, NodeStatus
from moorage.kube.model.storage import CSINodeDriver, CSINodeSpec, VolumeNodeResources
from moorage.kube.read.object_defaults import default_object
from moorage.kube.workloads.ownership import Names
from moorage.store import ApiError, NotFoundError, find_object

from .devices_of_nodes import SimulatedDevices
from .object_templates import CLASSES, ObjectTemplate
from .pods import GONE, PodRun

CAPACITY: Resources = {"pods": "110", "cpu": "4", "memory": "32Gi"}


class LabelNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Labels the nodes with the values in turn."""

    label_key: str
    label_values: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class UniqueNodeLabel(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Labels each node with its UID."""

    label_key: str


class NodeAllocatable(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Adds allocatable resources, and a CSINode, to each node."""

    node_allocatable: dict[str, str | int | float] = {}
    csi_node_allocatable: dict[str, VolumeNodeResources] = {}
    migrated_plugins: tuple[str, ...] = ()


Strategy = NodeAllocatable | LabelNodes | UniqueNodeLabel
"""How new nodes are modified."""


class SimulatedCluster:
    """Writes objects as the benchmark's client does, and synchronizes the scheduler.

    Parameters
    ----------
    scheduler : Scheduler
        A scheduler with a store of its own.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        assert scheduler.store is not None
        self.scheduler, self.store = scheduler, scheduler.store
        self.names = Names()
        self.nodes = 0
        self.devices = SimulatedDevices(scheduler)

    # ---- objects -------------------------------------------------------------------------------------------

    def create(self, obj: Object) -> Object:
        """Create an object other than a pod; without a name it gets a generated one.

        Returns
        -------
        Object
            The object as created.

        Raises
        ------
        InputError
            There is an object of this name.
        """
        created = default_object(obj, CLASSES, self.names)
        self._write(created)
        self.scheduler.sync()
        return created

    def has(self, obj: Object) -> bool:
        """Whether there is an object of the same kind and name."""
        return find_object(self.store, type(obj), obj.name, obj.namespace) is not None

    def create_many(self, objects: Iterable[Object]) -> None:
        """Create objects that have names and defaults.

        Raises
        ------
        InputError
            There is an object with one of the names; none is created then.
        """
        with located(ApiError):
            self.store.create_many(objects)
        self.scheduler.sync()

    def _write(self, obj: Object) -> None:
        with located(ApiError, obj=f"{obj.kind} {obj.key}"):
            self.store.create(obj)

    def delete(self, obj: Object) -> None:
        """Delete an object other than a pod."""
        self.store.delete(type(obj), obj.name, obj.namespace)
        self.scheduler.sync()

    def update(self, obj: Object) -> None:
        """Replace an object other than a pod.

        Parameters
        ----------
        obj : Object
            The new state of the object.

        Raises
        ------
        InputError
            There is no object of this name.
        """
        filled = default_object(obj, CLASSES, Names())
        with located(ApiError, obj=f"{obj.kind} {obj.key}"):
            self.store.update(replace(filled, metadata=replace(filled.metadata, uid=obj.metadata.uid)))
        self.scheduler.sync()

    def namespace(self, name: str, template: ObjectTemplate | None = None, index: int = 0) -> None:
        """Create a namespace if it does not exist.

        Parameters
        ----------
        template : ObjectTemplate, optional
            Template of the namespace; by default it has only a name.
        index : int, optional
            Index of the namespace, for the template.
        """
        named = Namespace(metadata=ObjectMeta(name=name))
        if not self.has(named):
            self.create(named if template is None else template.make(index, "Namespace", name=name))

    # ---- nodes ---------------------------------------------------------------------------------------------

    def create_nodes(
        self, count: int, template: ObjectTemplate | None, strategy: Strategy | None = None
    ) -> None:
        """Create nodes, then apply a strategy in the order of their names.

        The scheduler observes each node first without, then with its labels.

        Parameters
        ----------
        template : ObjectTemplate or None
            Template of the nodes; None for the default node.
        """
        nodes: list[Node] = []
        is_constant = template is None or not template.by_index
        for index in range(count):
            nodes.append(self._named(nodes[0] if nodes and is_constant else _node(template, index)))
            self._write(nodes[-1])
        self.nodes += len(nodes)
        for number, node in enumerate(sorted(nodes, key=lambda node: node.name)):
            changed = _prepared(strategy, node, number)
            if changed is not None:
                self.store.update(changed)
            if isinstance(strategy, NodeAllocatable):
                self._write(_csi_node(strategy, node.name))
        self.scheduler.sync()

    def _named(self, node: Node) -> Node:
        """The node with name, hostname label and defaults."""
        meta = node.metadata
        if meta.generate_name:
            meta = replace(meta, name=self.names.generate("Node", "", meta.generate_name), uid="")
        named = replace(node, metadata=replace(meta, labels=meta.labels | {HOSTNAME: meta.name}))
        return default_object(named, CLASSES, self.names)

    # ---- pods ----------------------------------------------------------------------------------------------

    def pods(self, namespace: str) -> list[tuple[str, str]]:
        """Return the pods of a namespace.

        Returns
        -------
        list of (str, str)
            Name, and name of the node; "" without one.
        """
        pods: list[Pod] = self.store.list(Pod, namespace)[0]
        return [(pod.name, pod.spec.node_name) for pod in pods]

    def with_claims(self, run: PodRun) -> Pod:
        """Make the resource claims of new pods; return the first of them.

        Parameters
        ----------
        run : PodRun
            The pods, at least one.
        """
        namespace = run.template.metadata.namespace
        self.devices.make_claims([self.store.get(Pod, run.name(at), namespace) for at in range(len(run))])
        return self.store.get(Pod, run.name(0), namespace)

    def delete_pod(self, run: PodRun, number: int) -> None:
        """Delete a pod; a pod with finalizers stays on its node in termination.

        Parameters
        ----------
        run : PodRun
            The run of the pod.
        number : int
            Index of the pod in the run.
        """
        try:
            deleted = self.store.delete(Pod, run.name(number), run.template.metadata.namespace)
        except NotFoundError:
            return  # the pod was evicted
        if run.state[number] < 0 or not deleted.metadata.finalizers:
            run.state[number] = GONE
            if deleted.spec.resource_claims:
                self.devices.controller.forget(deleted)
        self.scheduler.sync()

    def update_pod(self, pod: Pod) -> None:
        """Replace a pod and keep its node.

        Parameters
        ----------
        pod : Pod
            The new state of the pod.

        Raises
        ------
        InputError
            There is no pod of this name.
        """
        with located(ApiError, obj=f"Pod {pod.key}"):
            held = self.store.get(Pod, pod.name, pod.namespace)
            spec = replace(pod.spec, node_name=held.spec.node_name)
            metadata = replace(pod.metadata, uid="")
            self.store.update(replace(pod, metadata=metadata, spec=spec, status=held.status))
        self.scheduler.sync()


def _node(template: ObjectTemplate | None, index: int) -> Node:
    if template is None:
        meta = ObjectMeta(generate_name="scheduler-perf-")
        return Node(metadata=meta, status=NodeStatus(capacity=CAPACITY))
    node = template.make(index, "Node")
    assert isinstance(node, Node)
    if node.name:
        return replace(node, metadata=replace(node.metadata, generate_name=""))
    return node


def _prepared(strategy: Strategy | None, node: Node, number: int) -> Node | None:
    """The node after a strategy; None if that changes nothing."""
    match strategy:
        case LabelNodes(key, values):
            return _labelled(node, key, values[number % len(values)])
        case UniqueNodeLabel(key):
            return _labelled(node, key, node.metadata.uid)
        case NodeAllocatable(amounts):
            allocatable = node.status.allocatable | amounts
            return replace(node, status=replace(node.status, allocatable=allocatable))
        case None:
            return None


def _csi_node(amounts: NodeAllocatable, name: str) -> CSINode:
    """The CSINode of a node: limits of drivers, and migrated plugins."""
    drivers = tuple(
        CSINodeDriver(name=driver, node_id=name, allocatable=allocatable)
        for driver, allocatable in amounts.csi_node_allocatable.items()
    )
    meta = ObjectMeta(name=name, annotations={MIGRATED_PLUGINS: ",".join(amounts.migrated_plugins)})
    return CSINode(metadata=meta, spec=CSINodeSpec(drivers=drivers))


def _labelled(node: Node, key: str, value: str) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=node.metadata.labels | {key: value}))
