from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod

class Route(IntFlag):
    TERMINATING = 1
    NOMINATED = 2
    NAMED = 4
    PINNED = 8
    PORTS = 16
    VOLUMES = 32
    SIGNED = 64
    REJECTED = 128
    EXTENDERS = 256
    PYTHON = 512
    WAITS = 1024
    PROFILE = 65536
    ALONE = 195

class Routes:
    def __new__(
        cls, of_class: Callable[[Pod, tuple[int, int, int]], int], of_pod: Callable[[Pod], int] | None = None
    ) -> Self: ...

class PodBatch:
    @property
    def pods(self) -> Sequence[Pod]: ...
    def __new__(
        cls, state: ClusterState, pods: Sequence[Pod] | None = None, routes: Routes | None = None
    ) -> Self: ...
    @staticmethod
    def of_template(
        state: ClusterState, template: Pod, n: int, first: int = 0, routes: Routes | None = None
    ) -> PodBatch: ...
    @staticmethod
    def of_classes(
        state: ClusterState,
        classes: npt.NDArray[np.int32],
        pinned: npt.NDArray[np.int32],
        node_names: npt.NDArray[np.int32] | None = None,
    ) -> PodBatch: ...
    def __len__(self) -> int: ...
    def target(self, at: int) -> tuple[int, int, int]: ...
    def pod(self, at: int) -> Pod: ...
    def route(self, at: int) -> int: ...
    def cut(self, mask: int, first: int = 0) -> list[tuple[int, int, int]]: ...
    def classes(self, first: int = 0, end: int = 2147483647) -> list[int]: ...
    def targets(self, first: int = 0, end: int = 2147483647) -> list[tuple[int, int, int]]: ...

class Placements:
    @property
    def rows(self) -> npt.NDArray[np.int32]: ...
    @property
    def nodes(self) -> list[str | None]: ...
    @property
    def failures(self) -> dict[int, Any]: ...
    def __new__(cls, state: ClusterState, n: int) -> Self: ...
    def __len__(self) -> int: ...
    def keep(self, n: int) -> None: ...
    def note_names(self) -> int: ...

class Sink:
    def enter(self, batch: PodBatch, out: Placements, first: int, end: int) -> int: ...

class LedgerSink(Sink): ...
