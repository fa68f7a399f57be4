from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.plan import Plan
from moorage._core.decide.supposing import Supposing
from moorage._core.state.cluster_state import ClusterState

class TieBreak(IntEnum):
    FIRST = 0
    RANDOM = 1
    GO_HEAP = 2

def num_feasible_nodes_to_find(percentage: int, nodes: int) -> int: ...
def count_verdicts(verdicts: npt.NDArray[np.uint64]) -> dict[int, int]: ...

class Chooser(Supposing):
    start: int
    keeps_candidates: bool
    outsiders: bool
    candidates_limit: int
    def score(
        self,
        rows: npt.NDArray[np.int32],
        pod_class: int,
        node_name: int = 0,
        pinned: int = 0,
        bare: bool = False,
    ) -> npt.NDArray[np.int64]: ...
    def pick(self, totals: npt.NDArray[np.int64], drawn: npt.NDArray[np.bool_] | None = None) -> int: ...
    def rejections(self, pod_class: int, node_name: int = 0, pinned: int = 0) -> dict[int, int]: ...
    @property
    def candidates_bytes(self) -> int: ...
    @property
    def from_candidates(self) -> int: ...
    @property
    def from_scans(self) -> int: ...
    @property
    def parallel_scans(self) -> int: ...
    @property
    def failed(self) -> bool: ...
    @property
    def tie_break(self) -> TieBreak: ...
    @property
    def percentage(self) -> int: ...
    def __new__(
        cls, state: ClusterState, plan: Plan, tie_break: TieBreak, percentage: int = 0, seed: int = 0
    ) -> Self: ...
