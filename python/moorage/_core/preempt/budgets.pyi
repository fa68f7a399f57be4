from typing import Self

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.state.pod_class import PodClasses
from moorage.kube.model.policy import PodDisruptionBudget

def budget_matcher(budget: PodDisruptionBudget, empty_protects: bool) -> LabelSelectorMatcher | None: ...

class Budgets:
    def __new__(cls, classes: PodClasses) -> Self: ...
