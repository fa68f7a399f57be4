from typing import Self

from moorage._core.base.buffers import Journal
from moorage._core.base.change_log import ChangeLog
from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.kube.model.meta import Object

CONTROLLERS: tuple[tuple[str, str], ...]

class Versioned:
    def __new__(cls, journal: Journal, log: ChangeLog) -> Self: ...

class Namespaces(Versioned):
    def set(self, name: str, labels: dict[str, str]) -> None: ...
    def remove(self, name: str) -> None: ...

class Workloads(Versioned):
    def set(self, workload: Object) -> None: ...
    def remove(self, workload: Object) -> None: ...
    def selector_of(
        self, namespace: str, labels: dict[str, str], owner: tuple[str, str, str, str] | None
    ) -> LabelSelectorMatcher | None: ...
