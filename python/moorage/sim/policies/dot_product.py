"""DotProduct: the node whose free capacity has the least dot product with the requests."""

from __future__ import annotations

import numpy as np

from moorage.engine import framework as fwk
from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .free_capacity import CapacityScore, Fractions


class DotProduct(CapacityScore):
    """Scores 100 times 1 less the mean over resources of free capacity times request.

    This is the baseline DotProd of Weng et al. (USENIX ATC 2023), which prefers full nodes; `Tetris` has the
    score of the publication by which it is named.
    """

    name = "DotProduct"

    def score_rows(self, rows: Rows) -> Scores:
        products: Fractions = (self.free(rows) * self.request()).mean(axis=0)
        return ((1 - products) * fwk.MAX_NODE_SCORE).astype(np.int64)
