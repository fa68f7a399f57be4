from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar, final

from fastrlock.rlock import FastRLock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

class Work(Protocol[T_co]):
    def begin(self) -> T_co: ...
    def end(self, failed: bool) -> None: ...

@final
class Bracket(Generic[T]):
    def __new__(cls, lock: FastRLock, work: Work[T]) -> Self: ...
    def __enter__(self) -> T: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def release(self) -> None: ...
