from collections.abc import Callable, Iterator, Mapping, Sequence, Sized

from moorage._core.services.queued_pods import QueuedPodInfo, _Queue
from moorage._core.services.unschedulable_pods import UnschedulablePods
from moorage.framework import Status
from moorage.objects import Pod, UnitKey

class GroupedPods:
    @property
    def top_of(self) -> Callable[[UnitKey], UnitKey]: ...
    @property
    def members(self) -> dict[UnitKey, dict[str, QueuedPodInfo]]: ...
    def __init__(self, top_of: Callable[[UnitKey], UnitKey]) -> None: ...
    def enter(self, info: QueuedPodInfo) -> None: ...
    def leave(self, info: QueuedPodInfo) -> None: ...

_Asked = Sequence[Callable[[Pod], Status | None]]
_Rule = tuple[Sequence[str], Sequence[Sized], _Asked, _Asked, tuple[Sequence[str], str] | None]

class Entrance:
    def __init__(
        self,
        rules: Mapping[str, _Rule | None],
        nominated: dict[str, str],
        numbers: Iterator[int],
    ) -> None: ...
    def passes(self, pod: Pod) -> bool: ...
    def admit(
        self,
        infos: Iterator[QueuedPodInfo],
        waiting: dict[str, QueuedPodInfo],
        queue: _Queue,
        unschedulable: UnschedulablePods,
        now: Callable[[], float],
        grouped: GroupedPods | None,
    ) -> tuple[int, int, QueuedPodInfo | None]: ...
