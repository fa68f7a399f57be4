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
        self.names: dict[int, str] = {}  # what a row was called when it was last looked at
        self.cursor = -1

    @classmethod
    def of(cls, infos: NodeInfoMap, state: ClusterState, clone: Clone) -> Follower:
        """The one that has kept this map so far, or a new one."""
        held = follower_of(next(iter(infos.values()), None))
        if held is None or held.infos is not infos or held.state is not state:
            return cls(infos, state, clone)
        return held if len(infos) == len(held.names) else cls(infos, state, clone)

    def update(self) -> None:
        """Bring the map up to date."""
        log, table = self.state.log, self.state.table
        rows = None if self.cursor < 0 else log.rows_since(self.cursor)
        if rows is None:
            for name in [name for name in self.infos if table.find_row(name) is None]:
                del self.infos[name]
            rows = list(range(table.used))
            self.names.clear()
        self.cursor = log.head
        for row in rows:
            self._forget(row)
        for row in rows:
            self._show(row)

    def _forget(self, row: int) -> None:
        """Drop the entry of a row that is another node's now, or free."""
        name = self.names.pop(row, None)
        if name is not None and self.state.table.find_row(name) is None:
            self.infos.pop(name, None)

    def _show(self, row: int) -> None:
        """Replace the entry of a row unless it is of the row's generation."""
        table = self.state.table
        name = table.row_name(row) if row < table.used else None  # made and undone since
        if name is None:
            return
        self.names[row] = name
        held = self.infos.get(name)
        before = follower_of(held)
        is_same = held is not None and held.generation == row_generation(table, row)
        if before is None or before.state is not self.state or not is_same:
            self.infos[name] = info = self.clone(name)
            info.follower = self


def follower_of(info: object) -> Follower | None:
    """The follower that put a NodeInfo into a map; None for one that came another way."""
    return getattr(info, "follower", None)
