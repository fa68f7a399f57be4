"""BestFit: the node with the least capacity left after the pod."""

from __future__ import annotations

import numpy as np

from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .free_capacity import CapacityScore, Fractions


class BestFit(CapacityScore):
    """Scores 100 for a node that the pod fills, less for what is left, and scales scores to 0 to 100.

    What is left is the mean over resources, each as a fraction of the largest node's (Weng et al., USENIX ATC
    2023, baseline BestFit).
    """

    name = "BestFit"

    def score_rows(self, rows: Rows) -> Scores:
        left: Fractions = (self.free(rows) - self.request()).mean(axis=0)
        return ((1 - left) * fwk.MAX_NODE_SCORE).astype(np.int64)

    def normalize_rows(self, scores: Scores) -> Scores:
        return scaled(scores)


def scaled(scores: Scores) -> Scores:
    """Return scores scaled so that the least is 0 and the greatest 100; all 0 where they are equal."""
    least = scores.min()
    span = scores.max() - least
    return (scores - least) * fwk.MAX_NODE_SCORE // span if span else np.zeros_like(scores)
