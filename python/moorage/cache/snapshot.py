"""Snapshot: the nodes that one scheduling cycle reads. CacheDump: the whole content of a cache."""

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
    """Live nodes in list order, as of the last `SchedulerCache.update_snapshot`; independent of the cache.

    Rules of kube-scheduler v1.36, snapshot.go and cache.go UpdateSnapshot. A snapshot follows one cache;
    NodeInfos are made when they are asked for; after the next update they show their nodes as they are then.
    """

    @property
    def generation(self) -> int:
        """Sequence number of the last change that this snapshot contains."""
        return self.cursor

    @property
    def num_nodes(self) -> int:
        return len(self.row_list())

    @property
    def node_info_list(self) -> list[NodeInfo]:
        """One NodeInfo per node, in list order."""
        return [NodeInfo(self, name) for name in self.names()]

    @property
    def have_pods_with_affinity_list(self) -> list[NodeInfo]:
        """The nodes with a pod that has pod affinity or anti-affinity, in list order."""
        return [info for info in self.node_info_list if any(map(has_pod_affinity, info.pods))]

    @property
    def have_pods_with_required_anti_affinity_list(self) -> list[NodeInfo]:
        """The nodes with a pod that has required anti-affinity terms, in list order."""
        return [info for info in self.node_info_list if any(map(has_required_anti_affinity, info.pods))]

    def get(self, name: str) -> NodeInfo:
        """The NodeInfo of a node.

        Parameters
        ----------
        name : str

        Returns
        -------
        NodeInfo

        Raises
        ------
        CacheError
            The node is not in the snapshot.
        """
        if self.find_row(name) is None:
            raise CacheError(NOT_FOUND.format(name))
        return NodeInfo(self, name)


class NodeInfos(Mapping[str, Info]):
    """Nodes by name, ghosts included; a NodeInfo is made when it is asked for. The row without a name, which
    pods without a node are on, is not shown.

    Parameters
    ----------
    state : ClusterState
        One that does not change any more.
    make : callable
        The NodeInfo of a name.
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
    """Everything the cache holds at one moment (v1.13, Cache.Snapshot).

    Attributes
    ----------
    assumed_pods : dict of str to bool
        True per UID of an assumed pod.
    nodes : mapping of str to NodeInfo (QosNodeInfo where a binder's cache was asked)
        All nodes, ghosts included; independent of the cache.
    """

    assumed_pods: dict[str, bool]
    nodes: Mapping[str, Info]


def dump(state: ClusterState) -> CacheDump[NodeInfo]:
    """A dump over a copy of a state.

    Parameters
    ----------
    state : ClusterState

    Returns
    -------
    CacheDump
    """
    copy = state.fork()
    infos = NodeInfos(copy, lambda name: NodeInfo(copy, name))
    return CacheDump(dict.fromkeys(copy.assumed_pods(), True), infos)
