"""WorstFit: the node with the most capacity left after the pod."""

from __future__ import annotations

import numpy as np

from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .best_fit import scaled
from .free_capacity import CapacityScore, Fractions


class WorstFit(CapacityScore):
    """Scores the mean of what is left over resources, and scales scores to 0 to 100."""

    name = "WorstFit"

    def score_rows(self, rows: Rows) -> Scores:
        left: Fractions = (self.free(rows) - self.request()).mean(axis=0)
        return (left * fwk.MAX_NODE_SCORE).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)
