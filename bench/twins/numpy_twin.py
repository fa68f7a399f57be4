"""The plain pod's cycle in numpy: scans without allocation; a batch scores only the changed row again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Totals = npt.NDArray[np.int32]
Positions = npt.NDArray[np.intp]

Pick = Callable[[Totals], Any]

TAINTS = 300  # every node without taints: 100, weighted by 3
JUST_ABOVE_ERROR = 2.0**-44  # so that a product that means an integer does not truncate below it


@cache
def _preorder() -> npt.NDArray[np.int32]:
    """Keys that sort the first million places of a heap by its preorder."""
    index = np.arange(1, 2**20, dtype=np.int32)
    return index << (20 - np.floor(np.log2(index)).astype(np.int32))


def heap_top(totals: Totals) -> int:
    """The one that Go's heap has on top: of the greatest, the first in the heap's preorder."""
    best = np.flatnonzero(totals == totals.max())
    return int(best[_preorder()[best].argmin()])


class NumpyTwin:
    """Columns in list order, and one shape: `cpu` millicores and `memory` bytes.

    Parameters
    ----------
    rows : structured array
        ``table.raw()[0]`` in list order.
    """

    def __init__(self, rows: Any, cpu: int, memory: int) -> None:
        self.cpu, self.memory = float(cpu), float(memory)
        self.alloc_cpu, self.alloc_memory = rows["alloc_cpu"].copy(), rows["alloc_memory"].copy()
        self.used_cpu, self.used_memory = rows["req_cpu"].copy(), rows["req_memory"].copy()
        self.nonzero_cpu, self.nonzero_memory = rows["nonzero_cpu"].copy(), rows["nonzero_memory"].copy()
        self.slots = rows["pods_max"] - rows["pods"]
        self.before = rows["balanced"].copy()
        self.start = 0
        self._derive()
        self.reach = n = len(rows)
        self.x, self.y = np.empty(n), np.empty(n)
        self.i, self.total = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        self.fits, self.mask = np.empty(n, dtype=bool), np.empty(n, dtype=bool)

    def _derive(self) -> None:
        self.free_cpu, self.free_memory = self.alloc_cpu - self.used_cpu, self.alloc_memory - self.used_memory
        self.left_cpu, self.left_memory = (
            self.alloc_cpu - self.nonzero_cpu,
            self.alloc_memory - self.nonzero_memory,
        )
        self.per_cpu, self.per_memory = 100.0 / self.alloc_cpu, 100.0 / self.alloc_memory

    def scan(self) -> Totals:
        """Total of every node, 0 where the pod does not fit; valid until the next scan."""
        x, y, i, total = self.x, self.y, self.i, self.total
        self._least(self.left_cpu, self.cpu, self.per_cpu, total)
        self._least(self.left_memory, self.memory, self.per_memory, i)
        np.add(total, i, out=total)
        np.right_shift(total, 1, out=total)
        self._fraction(self.used_cpu, self.cpu, self.alloc_cpu, x)
        self._fraction(self.used_memory, self.memory, self.alloc_memory, y)
        np.subtract(x, y, out=x)
        np.abs(x, out=x)
        np.multiply(x, 0.5, out=x)
        np.subtract(1.0, x, out=x)
        np.multiply(x, 100.0, out=x)
        np.copyto(i, x, casting="unsafe")
        np.subtract(i, self.before, out=i)
        np.add(i, 50, out=i)
        np.right_shift(i, 1, out=i)
        np.add(total, i, out=total)
        np.add(total, 50 + TAINTS, out=total)
        np.greater_equal(self.free_cpu, self.cpu, out=self.fits)
        np.greater_equal(self.free_memory, self.memory, out=self.mask)
        np.logical_and(self.fits, self.mask, out=self.fits)
        np.greater(self.slots, 0, out=self.mask)
        np.logical_and(self.fits, self.mask, out=self.fits)
        np.multiply(total, self.fits, out=total)
        return total

    def _least(self, left: Any, request: float, per: Any, out: Totals) -> None:
        x = self.x
        np.subtract(left, request, out=x)
        np.maximum(x, 0.0, out=x)
        np.multiply(x, per, out=x)
        np.add(x, JUST_ABOVE_ERROR, out=x)
        np.copyto(out, x, casting="unsafe")

    def _fraction(self, used: Any, request: float, alloc: Any, out: Any) -> None:
        np.add(used, request, out=out)
        np.divide(out, alloc, out=out)
        np.minimum(out, 1.0, out=out)

    def decide(self) -> tuple[int, Positions, Totals]:
        """One full scan: the winner, and the feasible positions with their totals."""
        total = self.scan()
        positions = np.flatnonzero(total)
        totals = total[positions]
        return int(positions[totals.argmax()]), positions, totals

    # ---- batches: only the row that changed is scored again

    def place_run(self, n: int, wanted: int, pick: Pick = np.argmax) -> list[int]:
        """Positions of `n` equal pods, one after the other."""
        total = self.scan().copy()
        placed = []
        for _ in range(n):
            at = self.choose(total, wanted, pick)
            self.add(at)
            total[at] = self.score(at)
            placed.append(at)
        return placed

    def choose(self, total: Totals, wanted: int, pick: Pick = np.argmax) -> int:
        """The position of the best of `wanted` feasible nodes; the next search begins after them."""
        if pick is np.argmax and wanted >= len(total):
            return int(total.argmax())
        start = self.start
        if pick is np.argmax and self.moves_on(total, wanted):
            return start + int(total[start : self.start].argmax())
        window = self.whole(total, wanted) if pick is np.argmax else self.window(total, wanted)
        return int(window[pick(total[window])])

    def window(self, total: Totals, wanted: int) -> Positions:
        """The first `wanted` feasible positions from `start` on; the next search begins at the one after."""
        start = self.start
        if self.moves_on(total, wanted):
            return np.flatnonzero(total[start : self.start]) + start
        return self.whole(total, wanted)

    def moves_on(self, total: Totals, wanted: int) -> bool:
        """Whether the search ends about as far as the last time and before the end of the list; then the next
        one begins there."""
        margin = 32 + wanted // 16
        near = max(self.start + self.reach - margin, self.start)
        missing = wanted - np.count_nonzero(total[self.start : near])
        rest = np.flatnonzero(total[near : near + 2 * margin])
        if not 0 <= missing < len(rest):
            return False
        end = near + int(rest[missing])
        self.reach, self.start = end - self.start, end
        return True

    def whole(self, total: Totals, wanted: int) -> Positions:
        """The window, over the whole list."""
        start = self.start
        near = np.concatenate((np.flatnonzero(total[start:]) + start, np.flatnonzero(total[:start])))
        if len(near) > wanted:
            self.start = int(near[wanted])
            self.reach = (self.start - start) % len(total)
        return near[:wanted]

    def add(self, at: int) -> None:
        for column, amount in ((self.used_cpu, self.cpu), (self.used_memory, self.memory)):
            column[at] += amount
        for column, amount in ((self.free_cpu, self.cpu), (self.free_memory, self.memory)):
            column[at] -= amount
        for column, amount in ((self.left_cpu, self.cpu), (self.left_memory, self.memory)):
            column[at] -= amount
        self.slots[at] -= 1
        self.before[at] = self._balance(at, 0.0, 0.0)

    def _balance(self, at: int, cpu: float, memory: float) -> int:
        x = min((self.used_cpu.item(at) + cpu) / self.alloc_cpu.item(at), 1.0)
        y = min((self.used_memory.item(at) + memory) / self.alloc_memory.item(at), 1.0)
        return int((1.0 - abs(x - y) / 2.0) * 100.0)

    def has_room(self, at: int) -> bool:
        return bool(
            self.free_cpu[at] >= self.cpu and self.free_memory[at] >= self.memory and self.slots[at] > 0
        )

    def score(self, at: int) -> int:
        if not self.has_room(at):
            return 0
        cpu = int(max(self.left_cpu.item(at) - self.cpu, 0.0) * self.per_cpu.item(at) + JUST_ABOVE_ERROR)
        memory = int(
            max(self.left_memory.item(at) - self.memory, 0.0) * self.per_memory.item(at) + JUST_ABOVE_ERROR
        )
        balanced = 50 + ((50 + self._balance(at, self.cpu, self.memory) - self.before.item(at)) >> 1)
        return ((cpu + memory) >> 1) + balanced + TAINTS
