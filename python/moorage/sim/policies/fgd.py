"""FGD: fragmentation gradient descent."""

from __future__ import annotations

import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .gpu_share import GpuShare


class FGD(fwk.ScorePlugin):
    """Prefers the node whose GPUs become the least fragmented by the pod (Weng et al., USENIX ATC 2023).

    The typical pods by which fragmentation is measured are those of `GpuShare`, which the profile must have;
    its ``gpuSelection`` is ``gradient`` in that publication.
    """

    name = "FGD"
    default_weight = 1

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        return GpuShare.shares_of(state).gradient(nodes.rows)
