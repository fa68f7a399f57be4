"""Many classes in numpy: every class's total of every node, of which a placement scores one column again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from bench.twins.numpy_twin import (
    JUST_ABOVE_ERROR,
    TAINTS,
    NumpyTwin,
    Totals,
)


class ManyTwin:
    """Nodes in list order, and classes.

    Parameters
    ----------
    rows : structured array
        ``table.raw()[0]`` in list order.
    requests : (classes, 2) of millicores and bytes
    allowed : (classes, nodes) bool array
        What taints and node selectors leave.
    """

    def __init__(
        self, rows: Any, requests: Sequence[tuple[int, int]], allowed: npt.NDArray[np.bool_]
    ) -> None:
        self.nodes = NumpyTwin(rows, 0, 0)
        self.cpu, self.memory = np.array(requests, dtype=np.float64).T.copy()
        self.allowed = allowed
        self.totals = np.empty(allowed.shape, dtype=np.int32)
        for one in range(len(requests)):
            self._take(one)
            np.multiply(self.nodes.scan(), allowed[one], out=self.totals[one])

    def _take(self, one: int) -> None:
        self.nodes.cpu, self.nodes.memory = self.cpu.item(one), self.memory.item(one)

    def place_many(self, classes: Sequence[int], wanted: int) -> list[int]:
        """Positions of pods of these classes, one after the other."""
        placed = []
        for one in classes:
            self._take(one)
            at = self.nodes.choose(self.totals[one], wanted)
            self.nodes.add(at)
            self.totals[:, at] = self._column(at)
            placed.append(at)
        return placed

    def _column(self, at: int) -> Totals:
        """Every class's total of one node."""
        nodes, cpu, memory = self.nodes, self.cpu, self.memory
        least = self._least(nodes.left_cpu.item(at) - cpu, nodes.per_cpu.item(at))
        least += self._least(nodes.left_memory.item(at) - memory, nodes.per_memory.item(at))
        apart = np.minimum((nodes.used_cpu.item(at) + cpu) / nodes.alloc_cpu.item(at), 1.0)
        apart -= np.minimum((nodes.used_memory.item(at) + memory) / nodes.alloc_memory.item(at), 1.0)
        balanced = ((1.0 - np.abs(apart) * 0.5) * 100.0).astype(np.int32)
        total = (least >> 1) + ((balanced - nodes.before.item(at) + 50) >> 1) + (50 + TAINTS)
        fits = (cpu <= nodes.free_cpu.item(at)) & (memory <= nodes.free_memory.item(at))
        total *= fits & self.allowed[:, at] & (nodes.slots.item(at) > 0)
        return total

    @staticmethod
    def _least(left: npt.NDArray[np.float64], per: float) -> Totals:
        return (np.maximum(left, 0.0) * per + JUST_ABOVE_ERROR).astype(np.int32)
