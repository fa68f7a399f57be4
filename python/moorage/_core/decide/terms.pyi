from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.plan import Plan
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod

HOSTNAME: str
HARD: str
SOFT: str

class Terms:
    @property
    def spread_error(self) -> str: ...
    @property
    def spread_score_error(self) -> str: ...
    @property
    def answers(self) -> dict[tuple[str | bool, ...], Any]: ...
    @property
    def n_hard(self) -> int: ...
    @property
    def n_soft(self) -> int: ...
    @property
    def affinity_filters(self) -> bool: ...
    @property
    def affinity_scores(self) -> bool: ...
    def count_unlisted(self, pods: Sequence[Pod], row: int, sign: int) -> None: ...
    def __new__(cls, state: ClusterState, plan: Plan, pod_class: int, pinned: int) -> Self: ...

MAX_DRIVERS: int

class NodeDevices:
    @property
    def rows(self) -> int: ...
    @property
    def is_decisive(self) -> bool: ...

class VolumeDemand:
    @property
    def devices(self) -> NodeDevices | None: ...
    @property
    def rows(self) -> int: ...
    def __new__(
        cls,
        reachable: npt.NDArray[np.bool_] | None,
        attachments: Sequence[tuple[npt.NDArray[np.int32], int]],
        devices: NodeDevices | None = None,
    ) -> Self: ...
    def is_met_by(self, rows: npt.NDArray[np.int32]) -> bool: ...
