"""NodeTree: nodes by zone, as a list or through the stateful iteration of v1.13."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from fastrlock.rlock import FastRLock

from moorage._core.base.buffers import Journal
from moorage._core.base.symbols import Symbols
from moorage._core.state.zone_tree import NodeNames, zone_key, zone_key_v113
from moorage._core.state.zone_tree import NodeTree as CoreNodeTree
from moorage.errors import CacheError
from moorage.kube.model.node import Node

logger = logging.getLogger("moorage.cache")

KNOWN = "node %s already exist in the NodeTree"

ZONE_KEYS: dict[str, Callable[[dict[str, str]], str]] = {"1.36": zone_key, "1.13": zone_key_v113}


class NodeTree(NodeNames):
    """Nodes by zone: zones in the order of their first node, nodes in the order of addition. Thread-safe.

    The tree that `SchedulerCache.node_tree` returns is a view of the tree of the cache. It can be listed and
    iterated, but changes only through the cache.

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
    def of_cache(cls, core: CoreNodeTree, symbols: Symbols, lock: FastRLock) -> NodeTree:
        """Return a read-only view of the tree of a cache.

        Parameters
        ----------
        symbols : Symbols
            The symbols of node names.
        lock : fastrlock.rlock.FastRLock
            The lock of the cache.
        """
        out = cls()
        NodeNames.__init__(out, core, symbols, lock)
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
                logger.warning(KNOWN, node.name)
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
