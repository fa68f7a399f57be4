"""What keeps consolidation from evicting pods."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.facade import Scheduler
from moorage.objects import Pod, PodDisruptionBudget
from moorage.objects.workloads.disruption import BudgetSelectors

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


class Budgets:
    """The disruptions that budgets allow, less those that are planned."""

    def __init__(self, scheduler: Scheduler) -> None:
        budgets = scheduler.client.list(PodDisruptionBudget)[0]
        self._selectors = BudgetSelectors(budgets)
        self._left = {one.key: one.status.disruptions_allowed for one in budgets}

    def of(self, pod: Pod) -> list[str]:
        """Return the keys of the budgets that select a pod."""
        return [one.key for one in self._selectors.of(pod)]

    def reason(self, pods: Sequence[Pod]) -> str:
        """Return why pods cannot be evicted together; "" if they can."""
        needs: dict[str, int] = {}
        for pod in pods:
            keys = self.of(pod)
            if len(keys) > 1:
                return f"{pod.key}: several PodDisruptionBudgets select it"
            for key in keys:
                needs[key] = needs.get(key, 0) + 1
        lacking = [key for key, need in needs.items() if need > self._left[key]]
        return f"PodDisruptionBudget {lacking[0]}: not enough disruptions are allowed" if lacking else ""

    def take(self, pods: Sequence[Pod]) -> None:
        """Count the disruptions of pods that are to be evicted."""
        for pod in pods:
            for key in self.of(pod):
                self._left[key] -= 1
