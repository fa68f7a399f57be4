from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.plan import Plan
from moorage._core.search import Search
from moorage._core.state import ClusterState

class TieBreak(IntEnum):
    FIRST = 0
    RANDOM = 1
    GO_HEAP = 2

def num_feasible_nodes_to_find(percentage: int, nodes: int) -> int: ...

class Cycle(Search):
    start: int
    keeps_candidates: bool
    candidates_limit: int
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
    def decide(
        self, pod_class: int, node_name: int = 0, pinned: int = 0, tried: int = -1
    ) -> tuple[int, int, int, npt.NDArray[np.int32], npt.NDArray[np.int64] | None]: ...
    def place_run(
        self,
        pod_class: int,
        n: int,
        node_name: int = 0,
        pinned: int = 0,
        nexts: npt.NDArray[np.int32] | None = None,
    ) -> npt.NDArray[np.int32]: ...
    def place_many(
        self,
        classes: npt.NDArray[np.int32],
        pinned: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
        first: int = 0,
        nexts: npt.NDArray[np.int32] | None = None,
    ) -> int: ...
    def clone(self, state: ClusterState) -> Cycle: ...
