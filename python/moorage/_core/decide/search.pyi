from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.class_state import ClassStates
from moorage._core.decide.plan import Plan
from moorage._core.decide.terms import Terms
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod

MAX_THREADS: int

class _Nominator(Protocol):
    nodes: dict[str, str]
    changes: list[str]
    epoch: int
    def nominated_node(self, pod: Pod) -> str | None: ...
    def nominated_nodes(self) -> list[str]: ...
    def nominated_pods_for_node(self, node_name: str) -> list[Pod]: ...

class Search:
    threads: int
    parallel_from: int
    node_names: frozenset[str] | None
    invalid_score: Callable[[str, int], Exception]
    nominator: _Nominator | None
    on_nominated: Callable[[int, Sequence[Pod] | None], None] | None
    @property
    def state(self) -> ClusterState: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def states(self) -> ClassStates: ...
    def __new__(cls, state: ClusterState, plan: Plan) -> Self: ...
    @property
    def nodes(self) -> int: ...
    @property
    def has_nominated(self) -> bool: ...
    def nominated_on(self, row: int, priority: int) -> list[Pod]: ...
    def search_in(self, rows: npt.NDArray[np.int32] | None = None) -> None: ...
    def terms_of(self, pod_class: int, pinned: int = 0) -> Terms: ...
    def mark_feasible(
        self, out: npt.NDArray[np.int8], pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> int: ...
    def verdict(
        self, row: int, pod_class: int, node_name: int = 0, pinned: int = 0, nominated: bool = True
    ) -> int: ...
    def searched_rows(self, pod_class: int, node_name: int = 0, pinned: int = 0) -> npt.NDArray[np.int32]: ...
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
    def raw_scores(
        self, rows: npt.NDArray[np.int32], pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> npt.NDArray[np.int64]: ...
    def verdict_after(
        self,
        changes: list[tuple[int, list[Pod], list[Pod], AbstractSet[tuple[str, str, int]] | None]],
        filters: int,
        target: tuple[int, int, int],
    ) -> int: ...
    def nominate(self, nominations: Iterable[tuple[int, Sequence[Pod]]]) -> None: ...
    def follow_nominator(self, nominator: _Nominator, pod: Pod) -> None: ...
    def notify_pod_change(self, pod_class: int, pods: Iterable[Pod], row: int, adds: bool) -> None: ...
