"""The nodes of a BinderCache: made of Node, NMNode and CNR, with amounts per quality of service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from moorage._core.base.quantity import parse
from moorage._core.base.resources import is_counted
from moorage._core.binder import qos
from moorage._core.state.cluster_state import ClusterState
from moorage.engine.cache.node_info import NodeInfo, NodeInfoClone, NodeInfos, Resource, charge, copy_of
from moorage.errors import CacheError
from moorage.kube import Node, Pod, Resources
from moorage.kube.model.meta import whole

from .binder_stores import CacheHandler, Store, StoreName
from .godel import CNR, IGNORE_PODS_LIMIT, SCHEDULER_NAME, NMNode, is_placeholder, resource_type

# ---- qos node info -----------------------------------------------------------------------------------------
#
# QosNodeInfo: a node with separate amounts for guaranteed and for best-effort pods.

GUARANTEED, BEST_EFFORT = 0, 1
NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")
"""The resources for which `Resource` has fields, in the order of the fields."""


@dataclass
class QosNodeInfoClone(NodeInfoClone):
    """A copy of a QosNodeInfo, for what-if questions. It has the attributes of `QosNodeInfo`."""

    nm_node: NMNode | None
    cnr: CNR | None
    best_effort_requested: Resource
    best_effort_nonzero_requested: Resource
    best_effort_allocatable: Resource

    def _account(self, pod: Pod, sign: int) -> None:
        """Add or subtract the requests of a pod, in the amounts of its QoS."""
        shape = self.classes.shape_of(self.classes.intern(pod))
        if shape.ledger == BEST_EFFORT:
            charge(shape, sign, self.best_effort_requested, self.best_effort_nonzero_requested)
        else:
            charge(shape, sign, self.requested, self.nonzero_requested)

    def clone(self) -> Self:
        """Return another copy."""
        return replace(
            super().clone(),
            best_effort_requested=copy_of(self.best_effort_requested),
            best_effort_nonzero_requested=copy_of(self.best_effort_nonzero_requested),
            best_effort_allocatable=copy_of(self.best_effort_allocatable),
        )


class QosNodeInfo(NodeInfo):
    """A read-only view of the node with a certain name.

    `requested`, `nonzero_requested` and `allocatable` are the amounts of guaranteed pods.

    Parameters
    ----------
    cnrs : mapping of str to CNR
        By node name.

    Attributes
    ----------
    nm_node : NMNode or None
        The resources that a second node agent reports.
    cnr : CNR or None
        The resources for best-effort pods.
    best_effort_requested, best_effort_nonzero_requested, best_effort_allocatable : Resource
        The amounts of best-effort pods.
    """

    def __init__(
        self, state: ClusterState, name: str, nm_nodes: Mapping[str, NMNode], cnrs: Mapping[str, CNR]
    ) -> None:
        super().__init__(state, name)
        self._nm_nodes = nm_nodes
        self._cnrs = cnrs

    @property
    def nm_node(self) -> NMNode | None:
        """Return the NMNode of the node."""
        return self._nm_nodes.get(self.name)

    @property
    def cnr(self) -> CNR | None:
        """Return the CustomNodeResource of the node."""
        return self._cnrs.get(self.name)

    @property
    def is_live(self) -> bool:
        """Whether pods may be placed on the node: it has a Node or an NMNode."""
        return self.node is not None or self.nm_node is not None

    @property
    def guaranteed_capacity(self) -> Resource:
        """Return the capacity that the Node reports, or the NMNode if there is no Node."""
        node, nm_node = self.node, self.nm_node
        if node is not None:
            resources = node.status.capacity
        else:
            resources = nm_node.status.resource_capacity if nm_node is not None else {}
        return _parsed(resources)

    @property
    def guaranteed_reserved(self) -> Resource:
        """Return the requests of the placeholder pods, which are part of `requested`."""
        out = Resource()
        classes = self._source.classes
        for pod in filter(is_placeholder, self.pods):
            shape = classes.shape_of(classes.intern(pod))
            if shape.ledger == GUARANTEED:
                charge(shape, 1, out, Resource())
        return out

    @property
    def best_effort_requested(self) -> Resource:
        """Return the requests of best-effort pods."""
        return self._resource(1, BEST_EFFORT)

    @property
    def best_effort_nonzero_requested(self) -> Resource:
        """Return NonZeroRequested of best-effort pods."""
        return self._resource(2, BEST_EFFORT)

    @property
    def best_effort_allocatable(self) -> Resource:
        """Return the allocatable resources for best-effort pods."""
        return self._resource(0, BEST_EFFORT)

    def clone(self) -> QosNodeInfoClone:
        """Return a copy, at the same generation, that pods can be added to and removed from."""
        with self._source.lock:
            return QosNodeInfoClone(
                **vars(super().clone()),
                nm_node=self.nm_node,
                cnr=self.cnr,
                best_effort_requested=self.best_effort_requested,
                best_effort_nonzero_requested=self.best_effort_nonzero_requested,
                best_effort_allocatable=self.best_effort_allocatable,
            )


def _parsed(resources: Resources) -> Resource:
    """Return the amounts of a resource list."""
    amounts = {
        name: whole(name, parse(raw)) for name, raw in resources.items() if name in NATIVE or is_counted(name)
    }
    milli_cpu, memory, ephemeral_storage, pods = (amounts.pop(name, 0) for name in NATIVE)
    return Resource(milli_cpu, memory, ephemeral_storage, pods, scalar_resources=amounts)


# ---- node store --------------------------------------------------------------------------------------------
#
# NodeStore: nodes by name, each composed of a Node, an NMNode and a CustomNodeResource (CNR).

Read = dict[str | int, int]
"""Allocatable resources in the form of `NodeTable.read_allocatable`."""


def _missing(name: str) -> CacheError:
    """Return the error for an unknown node."""
    return CacheError(f"node {name} is not found")


class NodeStore(Store):
    """The nodes of a BinderCache. Their resources and usage are in the node table of the state.

    Attributes
    ----------
    nm_nodes : dict of str to NMNode
    cnrs : dict of str to CNR
        By node name.
    """

    name = StoreName.NODE

    def __init__(self, state: ClusterState, handler: CacheHandler) -> None:
        super().__init__(state, handler)
        self.nm_nodes: dict[str, NMNode] = {}
        self.cnrs: dict[str, CNR] = {}

    # ---- reading

    def get(self, name: str) -> QosNodeInfo | None:
        """Return a view of a node.

        Returns
        -------
        QosNodeInfo or None
            None for an unknown name. A removed node remains known while it has pods, an NMNode or a CNR.
        """
        known = bool(name) and self.state.find_row(name) is not None
        return QosNodeInfo(self.state, name, self.nm_nodes, self.cnrs) if known else None

    def dump(self) -> NodeInfos[QosNodeInfo]:
        """Return a copy of all nodes at this moment."""
        state, nm_nodes, cnrs = self.state.fork(), self.nm_nodes.copy(), self.cnrs.copy()
        return NodeInfos(state, lambda name: QosNodeInfo(state, name, nm_nodes, cnrs))

    def in_partition(self, name: str) -> bool:
        """Whether an annotation assigns a node to the partition of the handler's `scheduler_name`."""
        component = self.handler.scheduler_name
        objects = (self._node(name), self.nm_nodes.get(name))
        return any(
            obj is not None and obj.metadata.annotations.get(SCHEDULER_NAME) == component for obj in objects
        )

    def fits(self, pod: Pod, name: str, without: Iterable[Pod] = ()) -> tuple[str, ...]:
        """Check the requests of a pod against the free resources of a node for the QoS of the pod.

        The rules are those of Gödel, pkg/plugins/noderesources: pods of both QoS count towards the number of
        pods, and a pod of unknown QoS always fits.

        Parameters
        ----------
        without : iterable of Pod, optional
            Pods that do not count, such as victims; pods on other nodes are ignored.

        Returns
        -------
        tuple of str
            The reasons why the pod does not fit; empty if it fits.

        Raises
        ------
        CacheError
            There is neither a Node nor an NMNode of this name.
        """
        if self._node(name) is None and name not in self.nm_nodes:
            raise _missing(name)
        if resource_type(pod) is None:
            return ()
        ignore = IGNORE_PODS_LIMIT in pod.metadata.annotations
        return tuple(qos.misfits(self.state, pod, name, without, ignore))

    def _node(self, name: str) -> Node | None:
        """Return the Node with a name."""
        row = self.state.table.find_row(name)
        return None if row is None else self.state.table.objects[row]

    # ---- events

    def set_node(self, node: Node) -> None:
        """Add or replace a Node.

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        self.state.atomically(self._set_node, node)

    def _set_node(self, node: Node) -> None:
        """Add or replace a Node, inside a transaction."""
        self.state.set_node(node)
        self._describe(node.name, self.nm_nodes.get(node.name), self.cnrs.get(node.name))

    def delete_node(self, node: Node) -> None:
        """Remove a Node. The node remains known while it has pods, an NMNode or a CNR.

        Raises
        ------
        CacheError
            There is no such Node.
        """
        self.state.atomically(self._delete_node, node.name)

    def _delete_node(self, name: str) -> None:
        """Remove a Node, inside a transaction."""
        self.state.remove_node(name)
        if self.state.table.find_row(name) is not None:
            self._describe(name, self.nm_nodes.get(name), self.cnrs.get(name))

    def set_nm_node(self, nm_node: NMNode) -> None:
        """Add or replace an NMNode."""
        self._describe(nm_node.name, nm_node, self.cnrs.get(nm_node.name))
        self.state.journal.put(self.nm_nodes, nm_node.name, nm_node)

    def delete_nm_node(self, nm_node: NMNode) -> None:
        """Remove an NMNode.

        Raises
        ------
        CacheError
            There is no such NMNode.
        """
        if nm_node.name not in self.nm_nodes:
            raise _missing(nm_node.name)
        self._describe(nm_node.name, None, self.cnrs.get(nm_node.name))
        self.state.journal.drop(self.nm_nodes, nm_node.name)

    def set_cnr(self, cnr: CNR) -> None:
        """Add or replace a CustomNodeResource."""
        self._describe(cnr.name, self.nm_nodes.get(cnr.name), cnr)
        self.state.journal.put(self.cnrs, cnr.name, cnr)

    def delete_cnr(self, cnr: CNR) -> None:
        """Remove a CustomNodeResource.

        Raises
        ------
        CacheError
            There is no such CustomNodeResource.
        """
        if cnr.name not in self.cnrs:
            raise _missing(cnr.name)
        self._describe(cnr.name, self.nm_nodes.get(cnr.name), None)
        self.state.journal.drop(self.cnrs, cnr.name)

    def _describe(self, name: str, nm_node: NMNode | None, cnr: CNR | None) -> None:
        """Set the allocatable resources of a node for both QoS."""
        read = self.state.table.read_allocatable
        node = self._node(name)
        guaranteed = read(node.status.allocatable) if node is not None else {}
        if nm_node is not None:
            status = nm_node.status
            capacity, of_node = read(status.resource_capacity), guaranteed
            guaranteed = dict(of_node)
            for resource, value in read(status.resource_allocatable).items():
                if resource not in of_node:
                    guaranteed[resource] = value
                elif resource in capacity:  # less what the NMNode reserves
                    guaranteed[resource] = max(0, of_node[resource] - max(0, capacity[resource] - value))
        best_effort = read(cnr.status.best_effort_resource_allocatable) if cnr is not None else {}
        held = nm_node is not None or cnr is not None
        qos.describe(self.state, name, (guaranteed, best_effort), held)
