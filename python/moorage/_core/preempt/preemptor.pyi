from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.decider import Decider
from moorage._core.preempt.bound_pods import BoundPods
from moorage._core.preempt.dry_runs import DryRuns
from moorage._core.preempt.importance import EvictedGroups
from moorage._core.state.cluster_state import ClusterState
from moorage.kube.model.pod import Pod
from moorage.kube.model.policy import PodDisruptionBudget

class Outcomes: ...

class Evictions:
    @property
    def rows(self) -> npt.NDArray[np.int32]: ...
    def __new__(cls, state: ClusterState, most: int) -> Self: ...
    def victims(self, at: int) -> list[Pod]: ...

class Preemptor(DryRuns):
    classes: int
    @property
    def dry_runs(self) -> int: ...
    def __new__(cls, decider: Decider, stops_at_violation: bool = False) -> Self: ...
    def place_run(
        self,
        target: tuple[int, int, int],
        pods: Sequence[Pod],
        budgets: Sequence[PodDisruptionBudget] = (),
        offsets: npt.NDArray[np.int64] | None = None,
        limits: tuple[int, int] = ...,
        groups: EvictedGroups | None = None,
    ) -> Evictions: ...
    def begin(
        self,
        pod_class: int,
        budgets: Sequence[PodDisruptionBudget] = (),
        node_name: int = 0,
        pinned: int = 0,
        groups: EvictedGroups | None = None,
    ) -> int: ...
    def choose(
        self, offset: int = 0, percentage: int = 10, least: int = 100
    ) -> tuple[int, int, BoundPods] | None: ...
    def rejections(self) -> tuple[dict[int, int], list[int]]: ...
