from enum import IntEnum
from typing import Self

from moorage._core.base.buffers import Journal

class Kind(IntEnum):
    LOG_ROW = 0
    LOG_STATIC = 1
    LOG_ORDER = 2
    LOG_NAMESPACE = 3
    LOG_WORKLOAD = 4

class ChangeLog:
    @property
    def head(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    def __new__(cls, journal: Journal, capacity: int = 65536) -> Self: ...
    def rows_since(self, cursor: int, least: Kind = ..., most: Kind = ...) -> list[int] | None: ...
