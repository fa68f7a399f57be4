from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from moorage._core.provision.domain_counts import Host

T = TypeVar("T")

RESOURCES: tuple[str, ...]

def room_of(amounts: Mapping[str, int]) -> tuple[float, ...]: ...

class HostTable(Generic[T]):
    hosts: list[T]
    def add(self, host: T, seen: Host, have: Mapping[str, int], taken: Mapping[str, int] = ...) -> int: ...
    def fork(self, rows: Iterable[int]) -> HostTable[T]: ...
    def update(
        self, row: int, seen: Host, have: Mapping[str, int], taken: Mapping[str, int] = ...
    ) -> None: ...
    def possible(self, candidate: Any, order: npt.NDArray[np.int32]) -> Iterator[int]: ...
