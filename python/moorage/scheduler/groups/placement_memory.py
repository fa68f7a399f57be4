"""Memory of what placing groups in placements gave, until a row of the placement changes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moorage.framework import FrameworkHandle, Placement

Rows = npt.NDArray[np.int32]
MOST_KINDS, MOST_PLACEMENTS, MOST_RESULTS = 64, 1 << 13, 64


class Found(NamedTuple):
    """The result of a group in a placement.

    Attributes
    ----------
    fits : bool
        Whether the group gets what it needs.
    rows : (pods,) int32 array
        The row of each pod, not to be changed; -1 for none.
    next_start : int
        Position in the node list at which the next search begins.
    scores : list of int
        By plugin, where the group fits.
    """

    fits: bool
    rows: Rows
    next_start: int
    scores: list[int]


@dataclass(slots=True, eq=False)
class KnownPlacement:
    """What is known about a placement.

    Attributes
    ----------
    placement : Placement
    rows : frozenset of int
    results : dict of (int, int) to Found
        By kind of group and position in the node list, while the rows stay as they are.
    """

    placement: Placement
    rows: frozenset[int]
    results: dict[tuple[int, int], Found] = field(default_factory=dict)

    def remember(self, kind: int, start: int, found: Found) -> None:
        """Remember a result.

        Parameters
        ----------
        kind, start : int
        found : Found
        """
        if len(self.results) >= MOST_RESULTS:
            self.results.clear()
        self.results[kind, start] = found


class PlacementMemory:
    """Remembers the results of groups in placements, until a row of the placement changes.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._cluster = handle.cache.state
        self._kinds: dict[Hashable, int] = {}
        self._known: dict[int, KnownPlacement] = {}  # by the identity of the placement, which they keep alive
        self._of_row: dict[int, list[KnownPlacement]] = {}
        self._cursor, self._version = 0, -1
        self._all_nodes: tuple[int, Placement] | None = None  # with the static version of the view

    def all_nodes(self) -> Placement:
        """Return the placement of all nodes of the view, in list order."""
        view = self._cluster.view
        if self._all_nodes is None or self._all_nodes[0] != view.static_version:
            self._all_nodes = view.static_version, Placement("", view.rows())
        return self._all_nodes[1]

    def follow(self) -> None:
        """Forget the results that changes of rows have made void."""
        log, view = self._cluster.log, self._cluster.view
        rows, self._cursor = log.rows_since(self._cursor), log.head
        if rows is None or self._version != view.static_version or len(self._known) > MOST_PLACEMENTS:
            self._version = view.static_version
            self._known.clear()
            self._of_row.clear()
            return
        for row in rows:
            for known in self._of_row.get(row, ()):
                known.results.clear()

    def skip(self) -> None:
        """Pass over changes that have been undone since `follow`."""
        self._cursor = self._cluster.log.head

    def kind(self, key: Hashable) -> int:
        """Return the number of a kind of group.

        Parameters
        ----------
        key : hashable
            Equal for groups that get the same nodes wherever the rows of a placement are the same.

        Returns
        -------
        int
        """
        if key not in self._kinds and len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
            for known in self._known.values():
                known.results.clear()
        return self._kinds.setdefault(key, len(self._kinds))

    def known(self, placements: Iterable[Placement]) -> list[KnownPlacement]:
        """Return what is known about placements.

        Parameters
        ----------
        placements : iterable of Placement

        Returns
        -------
        list of KnownPlacement
        """
        known = self._known
        return [known.get(id(placement)) or self._new(placement) for placement in placements]

    def _new(self, placement: Placement) -> KnownPlacement:
        """Begin to remember results in a placement."""
        new = self._known[id(placement)] = KnownPlacement(placement, frozenset(placement.rows.tolist()))
        for row in new.rows:
            self._of_row.setdefault(row, []).append(new)
        return new
