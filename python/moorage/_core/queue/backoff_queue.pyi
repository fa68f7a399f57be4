from collections.abc import Callable
from typing import Any, Self

from moorage._core.queue.queued_pods import Lane, QueuedPodInfo, Waiting

class BackoffQueue(Waiting):
    @property
    def rejected(self) -> Lane: ...
    @property
    def failed(self) -> Lane: ...
    def __new__(
        cls,
        initial: float,
        maximum: float,
        in_windows: bool,
        rank: Callable[[QueuedPodInfo], tuple[Any, ...]],
    ) -> Self: ...
    def until(self, info: QueuedPodInfo) -> int: ...
    def is_backing_off(self, info: QueuedPodInfo, now: float) -> bool: ...
    def next_end(self) -> int | None: ...
