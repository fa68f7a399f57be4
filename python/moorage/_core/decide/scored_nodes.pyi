from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.batch_rows import Placements
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.search import Search

class ScoredNodes:
    chosen: str
    def __new__(
        cls,
        signature: bytes,
        chosen: str,
        created: float,
        names: npt.NDArray[np.int32],
        totals: npt.NDArray[np.int64],
        by_heap: bool,
    ) -> Self: ...
    @property
    def signature(self) -> bytes: ...
    @property
    def created(self) -> float: ...
    def __len__(self) -> int: ...
    def copy(self) -> ScoredNodes: ...
    def best(self) -> int: ...
    def place(self, search: Search, batch: PodBatch, out: Placements, first: int, end: int) -> int: ...
    def pop(self) -> int: ...
