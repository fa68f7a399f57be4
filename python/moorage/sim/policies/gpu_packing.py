"""GpuPacking: GPUs in use first, then GPUs of nodes in use."""

from __future__ import annotations

import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .gpu_share import GpuShare


class GpuPacking(fwk.ScorePlugin):
    """Scores 50 to 100 for GPUs in use, 33 to 50 for free GPUs of nodes in use, less for idle nodes.

    The baseline GpuPacking of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.
    """

    name = "GpuPacking"
    default_weight = 1

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        return GpuShare.shares_of(state).packing(nodes.rows)
