from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Self

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

class PodBatch:
    @property
    def pods(self) -> Sequence[Pod]: ...
    def __new__(cls, state: ClusterState, pods: Sequence[Pod] | None = None) -> Self: ...
    @staticmethod
    def of_template(state: ClusterState, template: Pod, n: int) -> PodBatch: ...
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
    def may_need(self, mask: int, first: int, end: int) -> bool: ...
    def route_by(self, route_of: Callable[[int], int], each: bool = False) -> None: ...
    def cut(self, mask: int, first: int = 0) -> list[tuple[int, int, int]]: ...
    def classes(self, first: int = 0, end: int = 2147483647) -> list[int]: ...
    def targets(self, first: int = 0, end: int = 2147483647) -> list[tuple[int, int, int]]: ...

class Sink:
    def enter(self, batch: PodBatch, rows: npt.NDArray[np.int32], first: int, end: int) -> int: ...

class LedgerSink(Sink): ...

class TemplateSink(Sink):
    def __new__(cls, template: Pod, first: int) -> Self: ...
