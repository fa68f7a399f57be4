from typing import Self

from moorage._core.base.buffers import Journal

class IntLists:
    def __new__(cls, journal: Journal) -> Self: ...
