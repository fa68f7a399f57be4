from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.plan import Plan
from moorage._core.decide.terms import Terms
from moorage._core.state.cluster_state import ClusterState

MAX_THREADS: int

class Search:
    threads: int
    parallel_from: int
    node_names: frozenset[str] | None
    invalid_score: Callable[[str, int], Exception]
    @property
    def state(self) -> ClusterState: ...
    @property
    def plan(self) -> Plan: ...
    def __new__(cls, state: ClusterState, plan: Plan, *settings: Any, **named: Any) -> Self: ...
    @property
    def nodes(self) -> int: ...
    def search_in(self, rows: npt.NDArray[np.int32] | None = None) -> None: ...
    def terms_of(self, pod_class: int, pinned: int = 0) -> Terms: ...
    def verdict(
        self, row: int, pod_class: int, node_name: int = 0, pinned: int = 0, nominated: bool = True
    ) -> int: ...
    def filter_verdicts(
        self, plugin: str, pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]: ...
    def verdicts(
        self, pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]: ...
    def scores(
        self,
        plugin: str,
        rows: npt.NDArray[np.int32],
        pod_class: int,
        node_name: int = 0,
        pinned: int = 0,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
