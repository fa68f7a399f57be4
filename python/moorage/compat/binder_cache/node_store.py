"""NodeStore: nodes by name, each composed of a Node, an NMNode and a CustomNodeResource (CNR)."""

from __future__ import annotations

from collections.abc import Iterable

from moorage._core.binder import qos
from moorage._core.state.cluster_state import ClusterState
from moorage.compat.godel import CNR, IGNORE_PODS_LIMIT, SCHEDULER_NAME, NMNode, resource_type
from moorage.engine.cache.node_info import NodeInfos
from moorage.errors import CacheError
from moorage.kube import Node, Pod

from .cache_handler import CacheHandler
from .qos_node_info import QosNodeInfo
from .stores import Store, StoreName

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
        """Return a copy of all nodes at this moment.

        Returns
        -------
        mapping of str to QosNodeInfo
            By node name.
        """
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
            guaranteed = _less_reserved(
                guaranteed, read(status.resource_capacity), read(status.resource_allocatable)
            )
        best_effort = read(cnr.status.best_effort_resource_allocatable) if cnr is not None else {}
        held = nm_node is not None or cnr is not None
        qos.describe(self.state, name, (guaranteed, best_effort), held)


def _less_reserved(node: Read, capacity: Read, allocatable: Read) -> Read:
    """Return the allocatable resources of a Node less what its NMNode reserves (capacity - allocatable)."""
    out = dict(node)
    for resource, value in allocatable.items():
        if resource not in node:
            out[resource] = value
        elif resource in capacity:
            out[resource] = max(0, node[resource] - max(0, capacity[resource] - value))
    return out
