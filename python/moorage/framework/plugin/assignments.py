"""Placements, and where the pods of a group would be in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moorage.objects.model.pod import Pod


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Some nodes, to which all pods of a group go if one does: their rows, int32, in list order."""

    name: str
    rows: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """Where the pods of a group would be in a placement.

    Attributes
    ----------
    pods : sequence of Pod
        Those that are to be placed.
    rows : (pods,) int32 array
        The row of each, -1 where it has none.
    scheduled : int
        How many pods of the group have a node already.
    """

    placement: Placement
    pods: Sequence[Pod]
    rows: npt.NDArray[np.int32]
    scheduled: int

    @property
    def placed(self) -> int:
        """How many of the pods have a row."""
        return int(np.count_nonzero(self.rows >= 0))
