from collections.abc import Hashable
from typing import Any, Self

from moorage._core.base.indexed_objects import Reader
from moorage.kube.model.pod import Pod

class BoundClaims:
    def __new__(
        cls,
        readers: tuple[Reader, Reader, Reader, Reader],
        names: tuple[str, str, tuple[str, ...]],
        in_use: Any,
        batch: Any,
        counts: bool,
    ) -> Self: ...
    def describe(self, pod: Pod) -> tuple[Hashable, ...] | None: ...
    def take(self, at: int) -> list[tuple[int, int, int]] | None: ...
