"""Where groups of pods were placed in the placements of a topology, until a row of a placement changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from moorage.framework import FrameworkHandle, Placement

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
NO_ROWS: Rows = np.empty(0, dtype=np.int32)
MOST_KINDS = 64


class PlacementMemory:
    """Remembers, for each kind of group, the nodes of its pods in each placement.

    Groups are of one kind if their pods get the same nodes wherever the rows of a placement are the same. At
    most 64 kinds are remembered. The plugins of a scheduler share one instance (`FrameworkHandle.shared`).

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler.

    Attributes
    ----------
    changed : (placements,) int64 array
        By placement, the head of the change log when a change of one of its rows was last noticed.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._placements: Sequence[Placement] = ()
        self._kinds: dict[object, PlacementResults] = {}
        self._placement_of: list[int] = []  # by row, the index of its placement; -1 for none
        self.changed: Ints = np.zeros(0, dtype=np.int64)
        self._cursor = 0
        self._all_nodes: tuple[int, Placement] | None = None  # with the static version of the view

    def all_nodes(self) -> Placement:
        """Return the placement of all nodes of the view, in list order."""
        view = self._cluster.view
        if self._all_nodes is None or self._all_nodes[0] != view.static_version:
            self._all_nodes = view.static_version, Placement("", view.rows())
        return self._all_nodes[1]

    def kind(self, placements: Sequence[Placement], key: object) -> PlacementResults:
        """Return what is known about a kind of group.

        Parameters
        ----------
        placements : sequence of Placement
            Without common rows. Another sequence than that of the last call voids all results.
        key : hashable
            Equal for groups of one kind.

        Returns
        -------
        PlacementResults
        """
        if placements is not self._placements or self.now() < 0:
            self._begin(placements)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[key] = PlacementResults(self, len(placements))
        return kind

    def _begin(self, placements: Sequence[Placement]) -> None:
        """Forget all results, and follow the rows of other placements."""
        self._placements = placements
        self._kinds.clear()
        self._placement_of = [-1] * self._cluster.table.used
        for at, placement in enumerate(placements):
            for row in placement.rows.tolist():
                self._placement_of[row] = at
        self.changed = np.zeros(len(placements), dtype=np.int64)
        self._cursor = self._cluster.log.head

    def now(self) -> int:
        """Follow the change log, and return its head; -1 if changes are lost or concern unknown rows."""
        rows, self._cursor = self._cluster.log.rows_since(self._cursor), self._cluster.log.head
        if rows is None or max(rows, default=-1) >= len(self._placement_of):
            return -1
        for row in rows:
            if self._placement_of[row] >= 0:
                self.changed[self._placement_of[row]] = self._cursor
        return self._cursor


class PlacementResults:
    """The results for one kind of group, by placement.

    Parameters
    ----------
    memory : PlacementMemory
    placements : int
        Number of placements.

    Attributes
    ----------
    starts, next_starts : (placements,) int64 array
        Positions in the node list at which the search in the placement begins, and the one after it.
    fits : (placements,) bool array
        Whether the placement takes all pods of the group.
    rows : list of array
        By placement that fits, the row of each pod.
    scores : list of (placements,) int64 array
        By plugin, the scores of the placements that fit.
    """

    def __init__(self, memory: PlacementMemory, placements: int) -> None:
        self._memory = memory
        self._heads: Ints = np.full(placements, -1, dtype=np.int64)  # as of which the results hold
        self.starts: Ints = np.zeros(placements, dtype=np.int64)
        self.next_starts: Ints = np.zeros(placements, dtype=np.int64)
        self.fits = np.zeros(placements, dtype=np.bool_)
        self.rows = [NO_ROWS] * placements
        self.scores: list[Ints] = []
        self._is_chain: bool | None = (
            True  # whether each search begins where the one before ended; None: unknown
        )

    def known_until(self, first: int, start: int) -> int:
        """Return the end of the placements from `first` on whose results are known.

        Parameters
        ----------
        first : int
            Index of a placement.
        start : int
            Position in the node list at which the search in that placement begins.

        Returns
        -------
        int
            `first` where its result is not known.
        """
        if self.starts[first] != start:
            return first
        is_known = self._heads[first:] >= self._memory.changed[first:]
        is_known[1:] &= self.starts[first + 1 :] == self.next_starts[first:-1]
        return len(self._heads) if is_known.all() else first + int(is_known.argmin())

    def outdated(self, start: int) -> list[int] | None:
        """Return the placements that have changed since they were searched, in order.

        Parameters
        ----------
        start : int
            Position in the node list at which the search in the first placement begins.

        Returns
        -------
        list of int or None
            None if the searches of other placements would begin elsewhere than they have.
        """
        if self._is_chain is None:
            self._is_chain = bool((self.starts[1:] == self.next_starts[:-1]).all())
        if not self._is_chain or self.starts[0] != start:
            return None
        outdated: list[int] = np.flatnonzero(self._heads < self._memory.changed).tolist()
        return outdated

    def note(self, placement: int, starts: tuple[int, int], rows: Rows, scores: Sequence[int]) -> None:
        """Remember the result of a search that has been undone.

        Parameters
        ----------
        placement : int
        starts : (int, int)
            Positions in the node list before and after the search.
        rows : (pods,) int32 array
            The row of each pod, not to be changed any more; empty where some pods fit nowhere.
        scores : sequence of int
            The scores of the plugins; empty where some pods fit nowhere.
        """
        start, next_start = starts
        self._heads[placement] = self._memory.now()
        if self.starts[placement] != start or self.next_starts[placement] != next_start:
            self._is_chain = None
        self.starts[placement], self.next_starts[placement] = start, next_start
        self.rows[placement], self.fits[placement] = rows, len(rows) > 0
        if not self.scores:
            self.scores = [np.zeros(len(self._heads), dtype=np.int64) for _ in scores]
        for of_plugin, score in zip(self.scores, scores, strict=False):
            of_plugin[placement] = score
