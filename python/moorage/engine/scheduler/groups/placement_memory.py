"""Memory of what placing groups in placements gave, until a row of the placement changes.

Pods that are placed by rows alone get the same nodes again as long as the rows of the placement and the
position in the node list are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from moorage.engine.framework import FrameworkHandle, Placement, Status

Rows = npt.NDArray[np.int32]
MOST_CHAINS, MOST_PLACEMENTS = 64, 1 << 13


class Chain:
    """What a group got in placements that were searched one after the other.

    Parameters
    ----------
    count : int
        Number of placements.
    start : int
        Position in the node list at which the first search begins.

    Attributes
    ----------
    starts : list of int
        By placement, the position at which the search in it begins; then the one after all searches.
    rows : list of (pods,) int32 array
        By placement that the group fits, the row of each pod; -1 for none.
    statuses : list of Status or None
        By placement, why the group fails there; None where it gets what it needs.
    fits : (count,) bool array
        By placement, whether the group gets what it needs there.
    known : bytearray
        By placement, whether the above is known: 1 or 0.
    """

    def __init__(self, count: int, start: int) -> None:
        self.starts = [start] * (count + 1)
        self.rows: list[Rows] = [np.empty(0, dtype=np.int32)] * count
        self.statuses: list[Status | None] = [None] * count
        self.fits = np.zeros(count, dtype=np.bool_)
        self.known = bytearray(count)
        # By plugin: the scores, and the placements for which they have to be asked for.
        self._scores: dict[str, tuple[npt.NDArray[np.int64], set[int]]] = {}

    def unknown(self) -> Iterator[int]:
        """Yield the placements that have to be searched, in order; `note` is called for each."""
        at = self.known.find(0)
        while at >= 0:
            yield at
            at = self.known.find(0, at + 1)

    def note(self, at: int, rows: Rows, status: Status | None, next_start: int) -> None:
        """Note the result in a placement. Later ones have to be searched again if they begin elsewhere now.

        Parameters
        ----------
        at : int
            Index of the placement.
        rows : (pods,) int32 array
            Not to be changed any more.
        next_start : int
            Position at which the next search begins.
        """
        self.statuses[at], self.fits[at] = status, status is None
        if status is None:  # the rows of failures are not asked for, and there can be many
            self.rows[at] = rows
        for _, unscored in self._scores.values():
            unscored.add(at)
        if self.starts[at + 1] != next_start:
            self.known[at + 1 :] = bytes(len(self.known) - at - 1)
            self.starts[at + 1] = next_start
        self.known[at] = 1  # last, so that an exception before leaves nothing half known

    def scores(self, plugin: str, score: Callable[[int], int]) -> npt.NDArray[np.int64]:
        """Return the scores of the placements that the group fits, by a plugin.

        Parameters
        ----------
        score : callable
            Returns the score of the placement of an index.

        Returns
        -------
        (n,) int64 array
        """
        if plugin not in self._scores:
            self._scores[plugin] = np.zeros(len(self.fits), dtype=np.int64), {*range(len(self.fits))}
        scores, unscored = self._scores[plugin]
        for at in sorted(unscored):
            if self.fits[at]:
                scores[at] = score(at)
        unscored.clear()
        return scores[self.fits]


Chains = dict[tuple[Hashable, int], Chain]
"""By kind of group and start."""


class PlacementMemory:
    """Remembers the results of groups in placements, until a row of the placement changes.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._chains: dict[int, tuple[Sequence[Placement], Chains]] = {}  # by identity of what it keeps alive
        self._of_row: dict[int, list[tuple[Chains, int]]] = {}  # with the index of the row's placement
        self._cursor, self._version = 0, -1
        self._all_nodes: tuple[int, Placement] | None = None  # with the static version of the view

    def all_nodes(self) -> Placement:
        """Return the placement of all nodes of the view, in list order."""
        view = self._cluster.view
        if self._all_nodes is None or self._all_nodes[0] != view.static_version:
            self._all_nodes = view.static_version, Placement("", view.rows())
        return self._all_nodes[1]

    def chain(self, placements: Sequence[Placement], kind: Hashable, start: int) -> Chain:
        """Return what is known about placements in the cluster as it is.

        Parameters
        ----------
        kind : hashable
            Equal for groups that get the same nodes wherever the rows of a placement are the same.
        start : int
            Position in the node list at which the search in the first placement begins.

        Returns
        -------
        Chain
            Of which later calls know what is noted.
        """
        self._follow()
        key = id(placements[0]) if len(placements) == 1 else id(placements)
        if key not in self._chains:
            chains = Chains()
            for at, placement in enumerate(placements):
                for row in placement.rows.tolist():
                    self._of_row.setdefault(row, []).append((chains, at))
            self._chains[key] = placements, chains
        chains = self._chains[key][1]
        chain = chains.get((kind, start))
        if chain is None:
            if len(chains) >= MOST_CHAINS:
                chains.clear()
            chain = chains[kind, start] = Chain(len(placements), start)
        return chain

    def undone(self, rows: Iterable[int]) -> None:
        """Pass over changes since `chain` that have been undone.

        Parameters
        ----------
        rows : iterable of int
            Those that were changed when `chain` was called for groups below.
        """
        self._forget(rows)
        self._cursor = self._cluster.log.head

    def _follow(self) -> None:
        """Forget the results that changes of rows have made void."""
        log, view = self._cluster.log, self._cluster.view
        rows = log.rows_since(self._cursor)
        if rows is None or self._version != view.static_version or len(self._chains) > MOST_PLACEMENTS:
            self._chains, self._of_row = {}, {}
            self._version = view.static_version
        else:
            self._forget(rows)
        self._cursor = log.head

    def _forget(self, rows: Iterable[int]) -> None:
        """Forget the results in the placements of some rows."""
        for row in rows:
            for chains, at in self._of_row.get(row, ()):
                for chain in chains.values():
                    chain.known[at] = 0
