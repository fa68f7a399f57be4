from typing import NamedTuple, Self

from moorage._core.base.symbols import Symbols

class Taint(NamedTuple):
    key: str
    value: str
    effect: str

class Toleration(NamedTuple):
    key: str
    operator: str
    value: str
    effect: str

class TaintSets:
    @property
    def sets(self) -> list[tuple[Taint, ...]]: ...
    def intern(self, taints: tuple[Taint, ...]) -> int: ...

class PortSets:
    @property
    def sets(self) -> list[frozenset[tuple[int, int, int]]]: ...
    @property
    def any_ip(self) -> int: ...
    def __new__(cls, symbols: Symbols) -> Self: ...
    def intern(self, ports: frozenset[tuple[int, int, int]]) -> int: ...
