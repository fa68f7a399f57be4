"""What the cache of Kubernetes v1.13 hands out beside its pods: nodes by zone (NodeTree), and a map of node
name to NodeInfo that follows the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Self

from fastrlock.rlock import FastRLock

from moorage._core.base.buffers import Journal
from moorage._core.base.symbols import Symbols
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.zone_tree import NodeNames, zone_key, zone_key_v113
from moorage._core.state.zone_tree import NodeTree as CoreNodeTree
from moorage.engine.cache import NodeInfo, NodeInfoClone, SchedulerCache
from moorage.engine.cache.scheduler_cache import ClusterCache
from moorage.errors import CacheError
from moorage.kube import Node

# ---- node tree ---------------------------------------------------------------------------------------------

logger = logging.getLogger("moorage.cache")

ZONE_KEYS: dict[str, Callable[[dict[str, str]], str]] = {"1.36": zone_key, "1.13": zone_key_v113}


class NodeTree(NodeNames):
    """Nodes by zone: zones in the order of their first node, nodes in the order of addition. Thread-safe.

    The tree of a cache (`NodeTree.of_cache`) can be listed and iterated, but changes only through the cache.

    Parameters
    ----------
    nodes : iterable of Node
        Added in order.
    zone_keys : {"1.36", "1.13"}
        The release whose labels determine the zone: "1.36" reads the beta and the stable labels, "1.13" only
        the beta labels.
    """

    def __init__(self, nodes: Iterable[Node] = (), zone_keys: str = "1.36") -> None:
        super().__init__(CoreNodeTree(Journal()), Symbols(), FastRLock())
        self._zone_key = ZONE_KEYS[zone_keys]
        self._read_only = False
        for node in nodes:
            self.add_node(node)

    @classmethod
    def of_cache(cls, cache: ClusterCache) -> NodeTree:
        """Return a live view of the tree of a cache, with the lock of the cache."""
        out = cls()
        NodeNames.__init__(out, cache.state.tree, cache.state.symbols, cache.lock)
        out._read_only = True
        return out

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        with self._lock:
            return self._core.num_nodes

    @property
    def zones(self) -> list[str]:
        """Return the zone keys, in the order of their first node."""
        with self._lock:
            return list(self._core.zones)

    def add_node(self, node: Node) -> None:
        """Append a node to its zone; if the zone has the node already, log a warning instead.

        Raises
        ------
        CacheError
            The tree is a cache's.
        """
        self._check_writable()
        zone = self._zone_key(node.metadata.labels)
        with self._lock:
            symbol = self._symbols.intern(node.name)
            if self._core.has(zone, symbol):
                logger.warning("node %s already exist in the NodeTree", node.name)
                return
            self._core.add(zone, symbol)
        logger.debug("Added node %s in group %s to NodeTree", node.name, zone)

    def update_node(self, old: Node | None, new: Node) -> None:
        """Move a node to the end of its new zone if its zone has changed.

        Raises
        ------
        CacheError
            The tree is a cache's.
        """
        self._check_writable()
        before = self._zone_key(old.metadata.labels) if old is not None else ""
        if before == self._zone_key(new.metadata.labels):
            return
        with self._lock:
            if old is not None and self._core.has(before, self._symbols.find(old.name)):
                self.remove_node(old)
            self.add_node(new)

    def remove_node(self, node: Node) -> None:
        """Remove a node from the zone that its labels name.

        Raises
        ------
        CacheError
            The node is not in that zone, or the tree is a cache's.
        """
        self._check_writable()
        zone = self._zone_key(node.metadata.labels)
        with self._lock:
            symbol = self._symbols.find(node.name)
            if not self._core.has(zone, symbol):
                raise CacheError(f"node {node.name} in group {zone} was not found")
            self._core.remove(zone, symbol)
        logger.debug("Removed node %s in group %s from NodeTree", node.name, zone)

    def reset_exhausted(self) -> None:
        """Restart the stateful iteration at the first node of the first zone."""
        with self._lock:
            self._core.reset_exhausted()

    def _check_writable(self) -> None:
        """Raise CacheError for the tree of a cache."""
        if self._read_only:
            raise CacheError("the node tree of a cache changes through the cache")


# ---- maps of NodeInfos -------------------------------------------------------------------------------------

NodeInfoMap = MutableMapping[str, NodeInfoClone]


def update_node_name_to_info_map(cache: SchedulerCache, infos: NodeInfoMap) -> None:
    """Update a map of node name to NodeInfo in place (v1.13, Cache.UpdateNodeNameToInfoMap).

    New and changed nodes, ghosts included, get new copies; removed names are deleted; other entries remain.
    An update examines only nodes that have changed since the previous one, so the caller must not change the
    map in between. It examines all nodes if the map is new to this cache, has been copied or has another
    length than after the previous update.

    Parameters
    ----------
    infos : dict of str to NodeInfoClone
        Changed in place.
    """
    with cache.lock:
        Follower.of(infos, cache.state).update()


@dataclass
class FollowedNodeInfo(NodeInfoClone):
    """A copy of a NodeInfo that is an entry of a map.

    Attributes
    ----------
    follower : Follower or None
        The object that updates the map; None of a copy of the entry.
    """

    follower: Follower | None = field(repr=False, compare=False)

    def clone(self) -> Self:
        """Return another copy, which is in no map."""
        return replace(super().clone(), follower=None)


class Follower:
    """Updates one map of node name to NodeInfo from the change log of a cluster.

    The entries of the map refer to their follower. The follower thus lives as long as the map, and a copied
    map or a map of another cache can be detected.

    Parameters
    ----------
    infos : dict of str to NodeInfoClone
        Updated in place.
    state : ClusterState
        The state of the cache.
    """

    def __init__(self, infos: NodeInfoMap, state: ClusterState) -> None:
        self.infos = infos
        self.state = state
        self.size = 0  # of the map after the last update
        self.cursor = -1

    @classmethod
    def of(cls, infos: NodeInfoMap, state: ClusterState) -> Follower:
        """Return the follower of a map, a new one unless the map has one of this state and is unchanged."""
        follower = _follower_of(next(iter(infos.values()), None))
        if follower is None or follower.infos is not infos or follower.state is not state:
            return cls(infos, state)
        return follower if follower.size == len(infos) else cls(infos, state)

    def update(self) -> None:
        """Update the map."""
        log, table = self.state.log, self.state.table
        rows = None if self.cursor < 0 else log.rows_since(self.cursor)
        self.cursor = log.head
        has_new_nodes = [self._update_row(row) for row in (range(table.used) if rows is None else rows)]
        if rows is None or any(has_new_nodes):  # else the names are the same
            for name in [name for name in self.infos if table.find_row(name) is None]:
                del self.infos[name]
        self.size = len(self.infos)

    def _update_row(self, row: int) -> bool:
        """Replace the entry of a row if it is out of date; return whether the names can have changed."""
        table = self.state.table
        name = table.row_name(row) if row < table.used else None
        if name is None:
            return True
        before = self.infos.get(name)
        known = _follower_of(before)
        is_ours = before is not None and known is not None and known.state is self.state
        if before is None or not is_ours or before.generation != table.row_generation(row):
            copy = NodeInfo(self.state, name).clone()
            self.infos[name] = FollowedNodeInfo(**vars(copy), follower=self)
        return before is None


def _follower_of(info: NodeInfoClone | None) -> Follower | None:
    return info.follower if isinstance(info, FollowedNodeInfo) else None
