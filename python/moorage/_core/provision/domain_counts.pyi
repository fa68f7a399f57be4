from collections.abc import Iterable, Sequence
from typing import Any, Self

from moorage._core.provision.label_requirements import HOSTNAME as HOSTNAME
from moorage._core.provision.label_requirements import RequirementSet
from moorage.kube.model.node import Taint

SPREAD: str
AFFINITY: str
ANTI_AFFINITY: str
NO_LIMIT: int

class Ties:
    attempt: int
    turn: int
    ways: int
    def __new__(cls, seed: int) -> Self: ...

class Host:
    name: str
    taints: tuple[Taint, ...]
    requirements: RequirementSet
    host: RequirementSet
    undefined: bool
    place: int
    def __new__(
        cls,
        name: str,
        taints: tuple[Taint, ...],
        requirements: RequirementSet,
        host: RequirementSet,
        undefined: bool,
    ) -> Self: ...
    @property
    def whole(self) -> RequirementSet: ...
    def having(self, requirements: RequirementSet) -> Host: ...
    def refusal(self, other: RequirementSet) -> str: ...

class TopologyCounts:
    group: Any
    known: int
    def __new__(cls, group: Any, known: int, hosts: list[int]) -> Self: ...
    def begun(
        self, group: Any, known: int, gone: Iterable[tuple[int, ...]], hosts: list[int]
    ) -> TopologyCounts: ...
    def record(self, mask: int) -> int: ...

class TopologyError: ...

class ConstraintGroups:
    def __new__(
        cls,
        topology: Any,
        constraints: Any,
        own: list[TopologyCounts] | None = None,
        away: list[TopologyCounts] | None = None,
    ) -> Self: ...
    def ways(
        self, host: Host, alternatives: Sequence[RequirementSet], ties: Ties
    ) -> list[RequirementSet | TopologyError | str]: ...
    def record(self, host: Host) -> None: ...
