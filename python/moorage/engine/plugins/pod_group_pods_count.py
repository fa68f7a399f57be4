"""PodGroupPodsCount: prefers placements with more pods of the group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import AnyGroup


class PodGroupPodsCount(fwk.PlacementScorePlugin):
    """PlacementScore of kube-scheduler v1.37, podgrouppodscount/.

    Pods that have a node already are counted, too. The score is 100 * pods / maximum.
    """

    name = "PodGroupPodsCount"
    default_weight = 1
    feature_gate = "TopologyAwareWorkloadScheduling"
    in_core = True

    def score_placement(self, group: AnyGroup, assignments: fwk.Assignments) -> int:
        return assignments.scheduled + assignments.placed

    def normalize_placement_scores(self, scores: npt.NDArray[np.int64]) -> npt.ArrayLike:
        most = int(scores.max(initial=0))
        if most == 0:
            raise MoorageError("no pods from pod group are assigned to any of the candidate placements")
        return scores * fwk.MAX_NODE_SCORE // most
