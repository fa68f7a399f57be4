import builtins
from typing import Self

from moorage._core.buffers import Journal

ZONE_LABELS: tuple[str, str]
REGION_LABELS: tuple[str, str]

def zone_key(labels: dict[str, str]) -> str: ...

class NodeTree:
    @property
    def zones(self) -> builtins.list[str]: ...
    @property
    def num_nodes(self) -> int: ...
    def __new__(cls, journal: Journal) -> Self: ...
    def list(self) -> builtins.list[int]: ...
