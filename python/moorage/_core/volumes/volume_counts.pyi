from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

from moorage._core.base.indexed_objects import Reader
from moorage._core.state.cluster_state import ClusterState
from moorage.kube.model.pod import Pod

MANY_USERS: int

class VolumeCounts:
    errors: dict[int, dict[str, str]]
    pods_with: dict[tuple[str, str], dict[int, int]]
    attachments_with: dict[tuple[str, str], dict[int, int]]
    of_pod: dict[tuple[int, str], tuple[tuple[str, str], ...]]
    pods_of: dict[str, dict[tuple[int, str], None]]
    attached: dict[int, frozenset[tuple[str, str]]]
    resolved: dict[str, tuple[str, str] | None]
    claims_of: dict[str, set[str]]
    used: dict[str, Any]
    unsettled: dict[int, None]
    names: dict[int, str]
    def __new__(cls, *args: Any, **others: Any) -> Self: ...
    def read_by(self, claims: Reader, volumes: Reader, error: type[Exception]) -> None: ...
    def forget(self) -> None: ...
    def resolve(self, key: str) -> tuple[str, str] | None: ...
    def add_pod(self, pod: Pod, row: int) -> None: ...
    def remove_pod(self, pod: Pod, row: int) -> None: ...
    def share(
        self,
        volumes: Sequence[tuple[str, str]],
        at: int,
        users: dict[Hashable, list[int]],
        excluded: set[Hashable],
    ) -> list[tuple[int, int, int]] | None: ...
    def count(self, row: int, volume: tuple[str, str], sign: int) -> None: ...

class VolumeUsers:
    pods: dict[int, dict[str, Pod]]
    claims: dict[str, int]
    released: int
    def __new__(cls, *args: Any) -> Self: ...
    def follow_rows(self, state: ClusterState, attached: VolumeCounts, rows: Iterable[int]) -> None: ...
