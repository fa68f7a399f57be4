"""UndoableRandom: random numbers that a rollback takes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from moorage._core.base.buffers import Journal


class UndoableRandom:
    """Uniform random integers. After a rollback of the cluster's state the same ones are drawn again."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._state: Any = self._generator.bit_generator.state
        self._kept = {"state": self._state}  # a rollback restores it

    def draw(self, below: int, journal: Journal) -> int:
        """Return a number from 0 to `below` - 1.

        Parameters
        ----------
        journal : Journal
            Of the cluster's state.
        """
        generator = self._generator
        if self._kept["state"] is not self._state:
            generator.bit_generator.state = self._kept["state"]
        out = int(generator.integers(below))
        self._state = generator.bit_generator.state
        journal.put(self._kept, "state", self._state)
        return out

    def copy_from(self, other: UndoableRandom) -> None:
        """Go on as another one."""
        self._state = self._generator.bit_generator.state = other._kept["state"]
        self._kept = {"state": self._state}
