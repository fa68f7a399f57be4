"""GpuPacking: GPUs in use first, then GPUs of nodes in use."""

from __future__ import annotations

from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .gpu_score import GpuScore


class GpuPacking(GpuScore):
    """Scores 50 to 100 for GPUs in use, 33 to 50 for free GPUs of nodes in use, less for idle nodes.

    The baseline GpuPacking of Weng et al. (USENIX ATC 2023); the profile must have `GpuShare`.
    """

    name = "GpuPacking"

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.packing(rows)
