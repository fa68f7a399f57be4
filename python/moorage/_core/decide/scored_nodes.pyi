from collections.abc import Callable
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.search import Search
from moorage._core.state.node_table import NodeTable

class ScoredNodes:
    def __new__(
        cls,
        signature: bytes,
        created: float,
        names: npt.NDArray[np.int32],
        totals: npt.NDArray[np.int64],
        by_heap: bool,
        raw: npt.NDArray[np.int64] | None = None,
    ) -> Self: ...
    @property
    def signature(self) -> bytes: ...
    @property
    def created(self) -> float: ...
    def __len__(self) -> int: ...
    def copy(self) -> ScoredNodes: ...
    def last_row(self, table: NodeTable) -> int: ...
    def best(self) -> int: ...
    def rescored(
        self,
        search: Search,
        target: tuple[int, int, int],
        pre_score: Callable[[npt.NDArray[np.int32]], object] | None = None,
    ) -> ScoredNodes | None: ...
    def place(self, search: Search, batch: PodBatch, out: Placements, first: int, end: int) -> int: ...
    def pop(self) -> int: ...
