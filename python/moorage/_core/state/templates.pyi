from typing import Self, final

from moorage._core.base.buffers import Journal
from moorage.kube.model.pod import Pod

@final
class Replicas:
    @property
    def prefix(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def first(self) -> int: ...
    def __new__(cls, template: Pod, base: str, id: int, first: int, count: int) -> Self: ...

@final
class Templates:
    def __new__(cls, journal: Journal) -> Self: ...
