"""Tetris: the node whose free capacity is best aligned with the requests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .best_fit import scaled
from .free_capacity import CapacityScore, Fractions


class Tetris(CapacityScore):
    """Scores the dot product of free capacity and requests (Grandl et al., SIGCOMM 2014, section 3.2).

    Scores are scaled to 0 to 100.
    """

    name = "Tetris"

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        products: Fractions = (self.free(nodes) * self.request(state)).sum(axis=0)
        return (products * PRECISION).astype(np.int64)

    def normalize_score(
        self, state: fwk.CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.ArrayLike:
        return scaled(scores)


PRECISION = 1_000_000  # scores are integers
