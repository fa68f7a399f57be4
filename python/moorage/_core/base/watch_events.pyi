from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar, final

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

def keys_of(objects: Iterable[Any]) -> list[str]: ...

class Cause(IntEnum):
    OTHER = 0
    BOUND = 1
    EVICTED = 2
    NOMINATED = 3
    CONDITION = 4

@final
class WatchEvent(Generic[_T]):
    def __class_getitem__(cls, item: Any) -> Any: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __init__(
        self,
        type: Literal["ADDED", "MODIFIED", "DELETED"],
        object: _T,
        resource_version: str,
        old: _T | None = None,
    ) -> None: ...
    @staticmethod
    def deferred(
        type: Literal["MODIFIED", "DELETED"],
        old: _T | WatchEvent[_T],
        version: int,
        make: Callable[[_T, str, Any], _T],
        argument: object = None,
    ) -> WatchEvent[_T]: ...
    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]: ...
    @property
    def cause(self) -> Cause: ...
    @property
    def object(self) -> _T: ...
    @property
    def old(self) -> _T | None: ...
    @property
    def identity(self) -> _T: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def key(self) -> str: ...

@final
class Notice(Generic[_T_co]):
    def __class_getitem__(cls, item: Any) -> Any: ...
    def __init__(self, old: Any, new: _T_co | None, is_initial: bool = False) -> None: ...
    @property
    def old(self) -> Any: ...
    @property
    def new(self) -> _T_co | None: ...
    @property
    def identity(self) -> Any: ...
    @property
    def cause(self) -> Cause: ...
    @property
    def is_addition(self) -> bool: ...
    @property
    def is_deletion(self) -> bool: ...
    @property
    def is_initial(self) -> bool: ...

@final
class ObjectMap(Generic[_T]):
    def __class_getitem__(cls, item: Any) -> Any: ...
    def __init__(self, objects: dict[str, _T]) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> _T: ...
    def __setitem__(self, key: str, held: _T | WatchEvent[_T], /) -> None: ...
    def get(self, key: str) -> _T | None: ...
    def take_back(self, events: Sequence[WatchEvent[_T]]) -> None: ...
    def copy(self) -> ObjectMap[_T]: ...
    def to_dict(self) -> dict[str, _T]: ...
    def record(self, event: WatchEvent[_T], events: list[WatchEvent[_T]]) -> None: ...
    def create(
        self,
        objects: Sequence[_T],
        namespaced: bool,
        uid_prefix: str,
        now: str,
        version: int,
        events: list[WatchEvent[_T]],
    ) -> int: ...
    def update(self, objects: Sequence[_T], version: int, events: list[WatchEvent[_T]]) -> int: ...
    def bind(
        self,
        pods: Sequence[_T],
        nodes: Sequence[str],
        keys: Sequence[str],
        make: Callable[[_T, str, Any], _T],
        version: int,
        events: list[WatchEvent[_T]],
    ) -> int: ...
    def set_condition(
        self,
        objects: Sequence[_T],
        condition: Any,
        make: Callable[[_T, str, Any], _T],
        version: int,
        events: list[WatchEvent[_T]],
        stays: str = "",
    ) -> list[bool]: ...
    def evict(
        self,
        pods: Sequence[_T | WatchEvent[_T]],
        condition: Any,
        make: Callable[[_T, str, Any], _T],
        remove: Callable[[_T, str, Any], _T],
        version: int,
        events: list[WatchEvent[_T]],
    ) -> list[bool]: ...
    def preempt(
        self,
        preemptions: Iterable[tuple[_T, str, Sequence[_T | WatchEvent[_T]]]],
        condition: Any,
        make: Callable[[_T, str, Any], _T],
        remove: Callable[[_T, str, Any], _T],
        nominate: Callable[[_T, str, str], _T],
        version: int,
        events: list[WatchEvent[_T]],
    ) -> int: ...
