"""GpuClustering: pods of one number of GPUs together."""

from __future__ import annotations

from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .gpu_score import GpuScore


class GpuClustering(GpuScore):
    """Prefers nodes with pods of the same kind: shares of a GPU, or the same number of whole GPUs.

    The baseline GpuClustering of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.

    Parameters
    ----------
    args : mapping of str to object, optional
        ``gpus``: number of GPUs of the largest node.
    """

    name = "GpuClustering"
    default_args = {"gpus": 8}

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.clustering(rows, 1000 * self.args["gpus"])
