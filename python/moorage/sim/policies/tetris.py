"""Tetris: the node whose free capacity is best aligned with the requests."""

from __future__ import annotations

import numpy as np

from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .best_fit import scaled
from .free_capacity import CapacityScore, Fractions


class Tetris(CapacityScore):
    """Scores the dot product of free capacity and requests (Grandl et al., SIGCOMM 2014, section 3.2).

    Scores are scaled to 0 to 100.
    """

    name = "Tetris"

    def score_rows(self, rows: Rows) -> Scores:
        products: Fractions = (self.free(rows) * self.request()).sum(axis=0)
        return (products * PRECISION).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)


PRECISION = 1_000_000  # scores are integers
