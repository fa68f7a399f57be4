"""Snapshot: the nodes that a scheduling cycle reads. CacheDump: the whole content of a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.row_copies import RowCopies
from moorage.errors import CacheError

from .node_info import NOT_FOUND, NodeInfo, has_pod_affinity, has_required_anti_affinity

Info = TypeVar("Info", bound=NodeInfo)


class Snapshot(RowCopies):
    """A copy of the nodes of a cache, in list order, as of the last `SchedulerCache.update_snapshot`.

    Ghosts are not included. The rules are as in kube-scheduler v1.36, snapshot.go and cache.go
    UpdateSnapshot. A NodeInfo of the snapshot is a view of it, so it shows the new state after an update.
    """

    @property
    def generation(self) -> int:
        """Return the sequence number of the last change that this snapshot contains."""
        return self.cursor

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.row_list())

    @property
    def node_info_list(self) -> list[NodeInfo]:
        """Return the NodeInfos of all nodes, in list order."""
        return [NodeInfo(self, name) for name in self.names()]

    @property
    def have_pods_with_affinity_list(self) -> list[NodeInfo]:
        """Return the nodes with a pod that has pod affinity or anti-affinity, in list order."""
        return [info for info in self.node_info_list if any(map(has_pod_affinity, info.pods))]

    @property
    def have_pods_with_required_anti_affinity_list(self) -> list[NodeInfo]:
        """Return the nodes with a pod that has required anti-affinity terms, in list order."""
        return [info for info in self.node_info_list if any(map(has_required_anti_affinity, info.pods))]

    def get(self, name: str) -> NodeInfo:
        """Return the NodeInfo of a node.

        Raises
        ------
        CacheError
            The node is not in the snapshot.
        """
        if self.find_row(name) is None:
            raise CacheError(NOT_FOUND.format(name))
        return NodeInfo(self, name)


class NodeInfos(Mapping[str, Info]):
    """A mapping from node name to NodeInfo, ghosts included; each access creates a NodeInfo.

    The row with an empty name, which holds pods without a node, is left out.

    Parameters
    ----------
    state : ClusterState
        A state that does not change.
    make : callable
        Returns the NodeInfo of a node name.
    """

    def __init__(self, state: ClusterState, make: Callable[[str], Info]) -> None:
        self._names = dict.fromkeys(name for name in state.table.names if name)
        self._make = make

    def __getitem__(self, name: str) -> Info:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class CacheDump(Generic[Info]):
    """The content of a cache at one moment (v1.13, Cache.Snapshot); independent of the cache.

    Attributes
    ----------
    assumed_pods : dict of str to bool
        True for the UID of each assumed pod.
    nodes : mapping of str to NodeInfo
        All nodes, ghosts included. The values are QosNodeInfo for a `BinderCache`.
    """

    assumed_pods: dict[str, bool]
    nodes: Mapping[str, Info]


def dump(state: ClusterState) -> CacheDump[NodeInfo]:
    """Return the content of a state, as a dump over a copy."""
    copy = state.fork()
    infos = NodeInfos(copy, lambda name: NodeInfo(copy, name))
    return CacheDump(dict.fromkeys(copy.assumed_pods(), True), infos)
