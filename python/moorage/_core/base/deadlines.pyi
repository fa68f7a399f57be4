from typing import Self, final

from moorage._core.base.buffers import Journal

@final
class Deadlines:
    def __new__(cls, journal: Journal) -> Self: ...
