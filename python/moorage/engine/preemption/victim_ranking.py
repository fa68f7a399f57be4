"""Ranks nodes for the pods of a group by the victims that would have to go for them.

kube-scheduler v1.38, defaultpreemption/default_preemption.go RankNodes and Reserve,
framework/preemption/util.go CompareVictimSets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from moorage._core.preempt.lower_units import LowerUnits

from ..framework.group_index import is_composite

Cost = tuple[object, ...]
"""What it costs to empty a node; less is cheaper."""


class VictimRanking:
    """The units that may have to go for a group, and those that certainly have to.

    A node where a pod of the group is placed condemns its units, on all of their nodes. What is still there
    makes a node dear: violated budgets, then priorities and pods from the highest priority down, then
    kinds and sizes of the units.

    Parameters
    ----------
    units : LowerUnits
        Before they are removed.
    violations : mapping of int to int
        By unit, how many of its pods violate a budget; none where a unit is missing.

    Attributes
    ----------
    condemned : frozenset of int
        The units that have to go. A caller that undoes what it has placed sets it back.
    """

    def __init__(self, units: LowerUnits, violations: Mapping[int, int]) -> None:
        self.condemned: frozenset[int] = frozenset()
        self._violations = violations
        self._units: list[tuple[int, tuple[int, int]]] = []  # priority, kind and number of pods
        self._on_row: dict[int, list[int]] = {}
        for at, (priority, whole, rows) in enumerate(units.described()):
            kind = 0 if whole is None else 1 + is_composite(whole)
            self._units.append((priority, (kind, len(rows))))
            for row in dict.fromkeys(rows):
                self._on_row.setdefault(row, []).append(at)
        self._costs: dict[tuple[int, ...], Cost] = {}

    def cheapest(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the rows of the lowest rank among some, in their order."""
        costs = [self._cost(row) for row in rows.tolist()]
        least = min(costs)
        return rows[[cost == least for cost in costs]]

    def condemn(self, row: int) -> None:
        """Condemn the units of a row, as a pod is placed there."""
        self.condemned = self.condemned.union(self._on_row.get(row, ()))

    def _cost(self, row: int) -> Cost:
        there = tuple(at for at in self._on_row.get(row, ()) if at not in self.condemned)
        if (known := self._costs.get(there)) is not None:
            return known
        levels = Counter[int]()
        for at in there:
            priority, (_, pods) = self._units[at]
            levels[priority] += pods
        violated = sum(self._violations.get(at, 0) for at in there)
        sizes = tuple(self._units[at][1] for at in there)
        cost = self._costs[there] = violated, tuple(sorted(levels.items(), reverse=True)), sizes
        return cost
