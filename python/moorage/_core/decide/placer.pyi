from collections.abc import Callable
from typing import Self

from moorage._core.decide.batch_rows import Placements, Sink
from moorage._core.decide.decider import Decider, TieBreak
from moorage._core.decide.plan import Plan
from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.search import Search
from moorage._core.state.cluster_state import ClusterState

class Placer:
    @property
    def search(self) -> Search: ...
    @property
    def decider(self) -> Decider: ...
    def __new__(
        cls, state: ClusterState, plan: Plan, tie_break: TieBreak, percentage: int = 0, seed: int = 0
    ) -> Self: ...
    def place(
        self,
        batch: PodBatch,
        out: Placements,
        first: int = 0,
        end: int = -1,
        sink: Sink | None = None,
        on_unschedulable: Callable[[int], object] | None = None,
    ) -> int: ...
    def reads_rows_alone(self, batch: PodBatch, first: int, end: int) -> bool: ...
    def account(self, batch: PodBatch, out: Placements, first: int, end: int) -> None: ...
    def tries(self, pods: int) -> int: ...
    def skip(self, pods: int) -> None: ...
    def clone(self, state: ClusterState) -> Placer: ...
