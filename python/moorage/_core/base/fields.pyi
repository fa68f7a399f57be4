from collections.abc import Iterable
from typing import Any, Self, final

from moorage.objects.model.pod import Pod, PodSpec
from moorage.objects.model.pod_group import CompositePodGroup, PodGroup

GROUP_ANNOTATION: str

@final
class Field:
    def __new__(cls, name: str) -> Self: ...

@final
class Fields:
    def __new__(cls, *excluded: str) -> Self: ...

@final
class SpecMemo:
    def __new__(cls, *unread: str) -> Self: ...
    def get(self, spec: PodSpec) -> Any: ...
    def put(self, spec: PodSpec, value: Any) -> int: ...

def group_of(pod: Pod) -> tuple[str, str] | None: ...
def unfinished_group_of(pod: Pod) -> tuple[str, ...]: ...
def disrupted_whole(
    groups: Iterable[PodGroup | CompositePodGroup],
) -> tuple[list[PodGroup | CompositePodGroup], float]: ...
