from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from moorage._core.decide.chooser import Chooser
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod

class Cycle(Chooser):
    def decide(
        self, pod_class: int, node_name: int = 0, pinned: int = 0, tried: int = -1
    ) -> tuple[int, int, int, npt.NDArray[np.int32], npt.NDArray[np.int64] | None]: ...
    def find(
        self, pod_class: int, node_name: int = 0, pinned: int = 0
    ) -> tuple[int, npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
    def place_run(
        self,
        pod_class: int,
        n: int,
        node_name: int = 0,
        pinned: int = 0,
        nexts: npt.NDArray[np.int32] | None = None,
        marks: npt.NDArray[np.int64] | None = None,
        alike: bool = True,
        enter: Callable[[npt.NDArray[np.int32]], object] | None = None,
    ) -> npt.NDArray[np.int32]: ...
    def place_many(
        self,
        classes: npt.NDArray[np.int32],
        pinned: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int32],
        first: int = 0,
        on_failure: Callable[[int], object] | None = None,
        nexts: npt.NDArray[np.int32] | None = None,
        pods: Sequence[Pod] | None = None,
    ) -> int: ...
    def forget_failures(self) -> None: ...
    def clone(self, state: ClusterState) -> Cycle: ...
