from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Self, TypeVar

from moorage._core.queue.queued_pods import QueuedPodInfo, Waiting
from moorage._core.state.pod_class import PodClasses
from moorage.engine.framework.events import HintIndex

_E = TypeVar("_E")
_M = TypeVar("_M")

FEW: int

class Rejection(NamedTuple):
    scheduler_name: str
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str

def rejection_of(info: QueuedPodInfo) -> Rejection: ...
def microseconds(seconds: float) -> int: ...

class RejectedPods:
    def __new__(cls, rejection: Rejection) -> Self: ...
    @property
    def pods(self) -> dict[str, QueuedPodInfo]: ...
    @property
    def by_class(self) -> dict[Hashable, dict[str, QueuedPodInfo]]: ...

class KeyIndex:
    def __new__(cls, hints: tuple[HintIndex, ...], of_class: bool = False) -> Self: ...

class UnschedulablePods(Waiting):
    def __init__(self, classes: PodClasses) -> None: ...
    @property
    def by_rejection(self) -> dict[Rejection, RejectedPods]: ...
    def listening(
        self, event: _E, meaning: Callable[[Rejection, _E], _M]
    ) -> list[tuple[RejectedPods, _M]]: ...
    def may_move(
        self, rejected: RejectedPods, indexes: tuple[HintIndex, ...], of_class: bool, old: Any, new: Any
    ) -> Iterable[Any]: ...
