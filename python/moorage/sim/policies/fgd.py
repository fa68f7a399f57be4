"""FGD: fragmentation gradient descent."""

from __future__ import annotations

from moorage.engine.framework.out_of_tree_plugins import Rows, Scores

from .gpu_score import GpuScore


class FGD(GpuScore):
    """Prefers the node whose GPUs become the least fragmented by the pod (Weng et al., USENIX ATC 2023).

    The typical pods by which fragmentation is measured are those of `GpuShare`, which the profile must have;
    its ``gpuSelection`` is ``gradient`` in that publication.
    """

    name = "FGD"

    def score_rows(self, rows: Rows) -> Scores:
        return self.shares.gradient(rows)
