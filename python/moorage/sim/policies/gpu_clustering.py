"""GpuClustering: pods of one number of GPUs together."""

from __future__ import annotations

import numpy.typing as npt

from moorage import framework as fwk
from moorage.objects import Pod

from .gpu_share import GpuShare


class GpuClustering(fwk.ScorePlugin):
    """Prefers nodes with pods of the same kind: shares of a GPU, or the same number of whole GPUs.

    The baseline GpuClustering of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``gpus``: number of GPUs of the largest node.
    handle : FrameworkHandle, optional
    """

    name = "GpuClustering"
    default_weight = 1
    default_args = {"gpus": 8}

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        return GpuShare.shares_of(state).clustering(nodes.rows, 1000 * self.args["gpus"])
