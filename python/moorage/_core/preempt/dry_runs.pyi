from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import Decider
from moorage._core.preempt.importance import EvictedGroups
from moorage._core.state.cluster_state import ClusterState
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import PodDisruptionBudget

NO_VICTIMS: int

class DryRun:
    @property
    def rows(self) -> npt.NDArray[np.int32]: ...
    @property
    def verdicts(self) -> npt.NDArray[np.uint64]: ...
    @property
    def violations(self) -> npt.NDArray[np.int32]: ...
    def __new__(
        cls,
        state: ClusterState,
        rows: list[int],
        verdicts: list[int],
        violations: list[int],
        numbers: list[list[int]],
    ) -> Self: ...
    def victims(self, at: int) -> list[Pod]: ...

class DryRuns:
    @property
    def state(self) -> ClusterState: ...
    @property
    def suits(self) -> bool: ...
    def __new__(cls, decider: Decider, stops_at_violation: bool = False) -> Self: ...
    def dry_run(
        self,
        target: tuple[int, int, int],
        rows: Iterable[int],
        budgets: Sequence[PodDisruptionBudget] = (),
        wanted: int = -1,
        groups: EvictedGroups | None = None,
    ) -> DryRun: ...
