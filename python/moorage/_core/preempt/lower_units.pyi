from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, type_check_only

from moorage._core.decide.pod_batch import PodBatch
from moorage._core.decide.search import Search
from moorage._core.preempt.bound_pods import BoundPods
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget

def has_pods_below(state: ClusterState, priority: int) -> bool: ...

@type_check_only
class UnitsOfGroups(Protocol):
    evicted_with: Mapping[tuple[str, str], tuple[str, str]]
    priorities: Mapping[tuple[str, str], int | None]
    def unit_of(self, key: tuple[str, str], /) -> tuple[int | None, tuple[str, str] | None]: ...
    def whole(self, key: tuple[str, str], pods: Sequence[Pod], /) -> tuple[Pod, ...]: ...

class LowerUnits:
    @property
    def wholes(self) -> dict[int, tuple[Pod, ...]]: ...
    @property
    def size(self) -> int: ...
    def __init__(self, state: ClusterState, priority: int, groups: UnitsOfGroups) -> None: ...
    def __len__(self) -> int: ...
    def pods(self, at: int) -> tuple[Pod, ...]: ...
    def pods_of(self, units: Iterable[int]) -> BoundPods: ...
    def budgeted(self, budgets: tuple[PodDisruptionBudget, ...]) -> list[int]: ...
    def to_leave(
        self,
        search: Search,
        batch: PodBatch,
        pods: int,
        protected: list[int],
        succeeds: Callable[[int], bool],
    ) -> tuple[list[int] | None, int, int]: ...
