from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from moorage._core.decide.external import External
from moorage._core.state.node_table import NodeTable
from moorage._core.state.pod_class import Shape
from moorage.kube.model.pod import TopologySpreadConstraint

VERDICT_SHIFT: int
UNRESOLVABLE: int
REASONS: int
KERNELS: dict[str, int]
STRATEGIES: dict[str, int]
ARGUMENTS: dict[str, Any]

class PluginArguments(TypedDict, total=False):
    fit: list[tuple[str, int]]
    balanced: list[tuple[str, int]]
    balanced_difference: bool
    fit_unresolvable: bool
    exact_shares: bool
    narrows: bool
    narrows_to_named: bool
    strategy: str
    points: Sequence[tuple[int, int]]
    ignored: Iterable[str]
    ignored_groups: Iterable[str]
    added: Shape | None
    default_constraints: tuple[TopologySpreadConstraint, ...]
    system_defaulted: bool
    hard_pod_affinity_weight: int
    ignore_preferred: bool
    externals: Iterable[External]
    with_skipped: Callable[[Plan], Plan] | None

class Plan:
    def complete(self) -> Plan: ...
    @property
    def filters(self) -> list[str]: ...
    @property
    def scores(self) -> list[str]: ...
    @property
    def externals(self) -> list[External]: ...
    @property
    def begins(self) -> list[Callable[[int], object]]: ...
    @property
    def follows(self) -> list[Callable[[], object]]: ...
    @property
    def needs_python(self) -> bool: ...
    @property
    def system_defaulted(self) -> bool: ...
    @property
    def ignore_preferred(self) -> bool: ...
    @property
    def narrows(self) -> bool: ...
    @property
    def narrows_to_named(self) -> bool: ...
    @property
    def scored(self) -> frozenset[str]: ...
    @property
    def delegated(self) -> frozenset[str]: ...
    @property
    def fit(self) -> list[str]: ...
    def provide(self, devices: dict[str, npt.NDArray[np.int64]]) -> None: ...
    def delegate(self, names: Iterable[str]) -> None: ...
    def raise_error(self) -> NoReturn: ...
    def raise_interrupt(self) -> None: ...
    def __new__(
        cls,
        table: NodeTable,
        filters: list[str | External],
        scores: list[tuple[str | External, int]],
        **arguments: Unpack[PluginArguments],
    ) -> Self: ...
