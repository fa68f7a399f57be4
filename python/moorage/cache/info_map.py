"""What has changed since a map of NodeInfos was last brought up to date."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.table_columns import row_generation

from .node_info import NodeInfoClone

NodeInfoMap = MutableMapping[str, NodeInfoClone]
Clone = Callable[[str], NodeInfoClone]


class Follower:
    """How far one map of node name to NodeInfo has followed a cluster's change log.

    The map's entries name the follower, so it lives as long as the map does, and a map that was copied, or
    that is another cache's, is recognised.

    Parameters
    ----------
    infos : map of str to NodeInfoClone
    state : ClusterState
    clone : callable
        A clone of a node's NodeInfo.
    """

    def __init__(self, infos: NodeInfoMap, state: ClusterState, clone: Clone) -> None:
        self.infos = infos
        self.state = state
        self.clone = clone
        self.size = 0  # of the map after the last update
        self.cursor = -1

    @classmethod
    def of(cls, infos: NodeInfoMap, state: ClusterState, clone: Clone) -> Follower:
        """The one that has kept this map so far, or a new one."""
        held = follower_of(next(iter(infos.values()), None))
        if held is None or held.infos is not infos or held.state is not state or held.size != len(infos):
            return cls(infos, state, clone)
        return held

    def update(self) -> None:
        """Bring the map up to date."""
        log, table = self.state.log, self.state.table
        rows = None if self.cursor < 0 else log.rows_since(self.cursor)
        self.cursor = log.head
        has_new_nodes = [self._update_row(row) for row in (range(table.used) if rows is None else rows)]
        if rows is None or any(has_new_nodes):  # else the names are the same
            for name in [name for name in self.infos if table.find_row(name) is None]:
                del self.infos[name]
        self.size = len(self.infos)

    def _update_row(self, row: int) -> bool:
        """Replace the entry of a row unless it is of the row's generation; whether the row has changed its
        node."""
        table = self.state.table
        name = table.row_name(row) if row < table.used else None
        if name is None:
            return True
        held = self.infos.get(name)
        before = follower_of(held)
        is_same = held is not None and held.generation == row_generation(table, row)
        if before is None or before.state is not self.state or not is_same:
            self.infos[name] = info = self.clone(name)
            info.follower = self
        return held is None


def follower_of(info: object) -> Follower | None:
    """The follower that put a NodeInfo into a map; None for one that came another way."""
    return getattr(info, "follower", None)
