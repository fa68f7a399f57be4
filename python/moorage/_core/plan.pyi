from typing import Self

from moorage._core.node_table import NodeTable

VERDICT_SHIFT: int
UNRESOLVABLE: int
REASONS: int
KERNELS: dict[str, int]

class Plan:
    @property
    def filters(self) -> list[str]: ...
    @property
    def scores(self) -> list[str]: ...
    @property
    def weights(self) -> dict[str, int]: ...
    def __new__(
        cls,
        table: NodeTable,
        filters: list[str],
        scores: list[tuple[str, int]],
        fit: list[tuple[str, int]],
        balanced: list[tuple[str, int]],
        balanced_difference: bool = True,
        fit_unresolvable: bool = True,
    ) -> Self: ...
