from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Self

from moorage._core.state.cluster_state import ClusterState
from moorage.kube.model.pod import Pod

END: int

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
    CLAIMS = 2048
    SHARES = 4096
    DEVICES = 8192
    SIGNATURE = 16384
    PROFILE = 65536
    ALONE = 195

class Routes:
    def __new__(
        cls,
        of_class: Callable[[Pod, tuple[int, int, int], bool], int],
        of_pod: Callable[[Pod], int] | None = None,
        repeats: bool = False,
    ) -> Self: ...

class RepeatedNeeds:
    def note(self, pod: Pod, at: int) -> bool: ...

class PodBatch:
    @property
    def pods(self) -> Sequence[Pod]: ...
    def __new__(
        cls,
        state: ClusterState,
        pods: Sequence[Pod] | None = None,
        routes: Routes | None = None,
        class_with_volumes: Callable[
            [Pod, int, int], tuple[int, list[tuple[int, int, int]], int, RepeatedNeeds | None]
        ]
        | None = None,
        first: int = 0,
        delegated: frozenset[str] = frozenset(),
    ) -> Self: ...
    @staticmethod
    def of_template(
        state: ClusterState, template: Pod, n: int, first: int = 0, routes: Routes | None = None
    ) -> PodBatch: ...
    def __len__(self) -> int: ...
    def target(self, at: int) -> tuple[int, int, int]: ...
    def pod(self, at: int) -> Pod: ...
    def route(self, at: int) -> int: ...
    def end_of_run(self, at: int) -> int: ...
    def has(self, mask: int) -> bool: ...
    def key(self, first: int, end: int) -> tuple[int, ...]: ...
    def cut(self, mask: int, first: int = 0) -> list[tuple[int, int, int]]: ...
    def classes(self, first: int = 0, end: int = 2147483647) -> list[int]: ...
    def targets(self, first: int = 0, end: int = 2147483647) -> list[tuple[int, int, int]]: ...
