from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from moorage._core.base.watch_events import Notice
from moorage._core.queue.backoff_queue import BackoffQueue
from moorage._core.queue.entrance import Entrance
from moorage._core.queue.in_flight import InFlight, Numbers
from moorage._core.queue.queued_pods import QueuedGroupInfo, QueuedPodInfo
from moorage._core.queue.unschedulable_pods import UnschedulablePods
from moorage.objects import Pod, UnitKey

class PodQueue:
    infos: dict[str, QueuedPodInfo]
    active: Any
    now: Callable[[], float]
    backoff: BackoffQueue
    unschedulable: UnschedulablePods
    groups: dict[UnitKey, QueuedGroupInfo]
    @property
    def in_flight(self) -> InFlight: ...
    @property
    def numbers(self) -> Numbers: ...
    @property
    def entrance(self) -> Entrance: ...
    @property
    def top_of(self) -> Callable[[UnitKey], UnitKey]: ...
    @property
    def pop_from_backoff(self) -> bool: ...
    @property
    def groups_pods(self) -> bool: ...
    def __init__(
        self,
        entrance: Entrance,
        now: Callable[[], float],
        pop_from_backoff: bool,
        top_of: Callable[[UnitKey], UnitKey] | None,
    ) -> None: ...
    def release(self, groups: list[QueuedPodInfo]) -> list[QueuedPodInfo]: ...
    def admit(self, infos: Iterator[QueuedPodInfo]) -> tuple[int, int, QueuedPodInfo | None]: ...
    def reject(
        self,
        infos: list[QueuedPodInfo],
        latest: list[Pod | None],
        rejectors: Sequence[tuple[frozenset[str], frozenset[str]]],
        first: int,
    ) -> int: ...
    def move_unschedulable(self, infos: list[QueuedPodInfo], first: int) -> tuple[int, bool]: ...
    def follow_nominations(
        self, notices: Iterable[Notice[Pod]], nodes: dict[str, str], by_node: dict[str, dict[str, Pod]]
    ) -> int: ...
