from typing import Self

from moorage._core.state.pod_class import PodClasses

class Budgets:
    @property
    def version(self) -> int: ...
    def __new__(cls, classes: PodClasses) -> Self: ...
