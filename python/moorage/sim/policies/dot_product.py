"""DotProduct: the node whose free capacity has the least dot product with the requests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .free_capacity import CapacityScore, Fractions


class DotProduct(CapacityScore):
    """Scores 100 times 1 less the mean over resources of free capacity times request.

    This is the baseline DotProd of Weng et al. (USENIX ATC 2023), which prefers full nodes; `Tetris` has the
    score of the publication by which it is named.
    """

    name = "DotProduct"

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        products: Fractions = (self.free(nodes) * self.request(state)).mean(axis=0)
        return ((1 - products) * fwk.MAX_NODE_SCORE).astype(np.int64)
