from typing import Self

from moorage._core.buffers import Journal

class Deadlines:
    def __new__(cls, journal: Journal) -> Self: ...
