from collections.abc import Callable, Mapping, Sequence, Sized

from moorage._core.queue.queued_pods import QueuedPodInfo
from moorage.engine.framework import Status
from moorage.kube import Pod

class CreationClock:
    now: float
    def __init__(self, seconds: Callable[[str], float]) -> None: ...
    def __call__(self) -> float: ...
    def entry(self, pod: Pod) -> QueuedPodInfo: ...

_Asked = Sequence[Callable[[Pod], Status | None]]
_Rule = tuple[Sequence[str], Sequence[Sized], _Asked, _Asked]

class Entrance:
    def __init__(self, rules: Mapping[str, _Rule | None]) -> None: ...
