"""WorstFit: the node with the most capacity left after the pod."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .best_fit import scaled
from .free_capacity import CapacityScore, Fractions


class WorstFit(CapacityScore):
    """Scores the mean of what is left over resources, and scales scores to 0 to 100."""

    name = "WorstFit"

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        left: Fractions = (self.free(nodes) - self.request(state)).mean(axis=0)
        return (left * fwk.MAX_NODE_SCORE).astype(np.int64)

    def normalize_score(
        self, state: fwk.CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.ArrayLike:
        return scaled(scores)
