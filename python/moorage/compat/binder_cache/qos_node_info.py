"""QosNodeInfo: a node with separate amounts for guaranteed and for best-effort pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from moorage._core.base.quantity import parse_milli, parse_value
from moorage._core.base.resources import is_counted
from moorage._core.state.cluster_state import ClusterState
from moorage.compat.godel import CNR, NMNode, is_placeholder
from moorage.engine.cache.node_info import NodeInfo, NodeInfoClone, Resource, charge, copy_of
from moorage.kube import Pod, Resources

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
        name: parse_milli(raw) if name == "cpu" else parse_value(raw)
        for name, raw in resources.items()
        if name in NATIVE or is_counted(name)
    }
    milli_cpu, memory, ephemeral_storage, pods = (amounts.pop(name, 0) for name in NATIVE)
    return Resource(milli_cpu, memory, ephemeral_storage, pods, scalar_resources=amounts)
