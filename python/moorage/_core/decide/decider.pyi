from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.search import Search
from moorage._core.state.cluster_state import ClusterState

class TieBreak(IntEnum):
    FIRST = 0
    RANDOM = 1
    GO_HEAP = 2

def num_feasible_nodes_to_find(percentage: int, nodes: int) -> int: ...
def count_verdicts(verdicts: npt.NDArray[np.uint64]) -> dict[int, int]: ...

class Decider:
    @property
    def search(self) -> Search: ...
    @property
    def state(self) -> ClusterState: ...
    start: int
    keeps_candidates: bool
    has_extenders: bool
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
    def __new__(cls, search: Search, tie_break: TieBreak, percentage: int = 0, seed: int = 0) -> Self: ...
    def decide(
        self, pod_class: int, node_name: int = 0, pinned: int = 0, tried: int = -1
    ) -> tuple[int, int, int, npt.NDArray[np.int32], npt.NDArray[np.int64] | None]: ...
    def find(
        self, pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> tuple[int, npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
