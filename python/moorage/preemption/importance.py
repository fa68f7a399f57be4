"""The importance of pods, and the victims that PodDisruptionBudgets protect.

kube-scheduler v1.36, util/utils.go MoreImportantPod, defaultpreemption filterPodsWithPDBViolation; for pods
that are only evicted together v1.37, framework/preemption/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moorage._core.preempt.budgets import budget_matcher
from moorage._core.preempt.importance import start_time
from moorage.objects import Pod, PodDisruptionBudget


def priority_of(pod: Pod) -> int:
    """Return a pod's priority; 0 if it has none."""
    return pod.spec.priority or 0


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are only evicted together.

    Attributes
    ----------
    pods : tuple of Pod
        The most important first; at least one, each with its node name.
    priority : int
        The pod's own, or the group's.
    is_group : bool
        Whether the priority is that of a group.
    """

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods, the most important first: by priority, then by how long each has run.

    Pods that are equal in both stay in order; upstream's sort leaves their order open.
    """
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_time(pod)))


def units_by_importance(units: Iterable[Unit]) -> list[Unit]:
    """Sort units, the most important first.

    The criteria are the priority; groups before pods; the number of the group's pods; how long the oldest pod
    has run. Units that are equal in all of them stay in order.
    """
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            not unit.is_group,
            -len(unit.pods),
            min(start_time(pod) for pod in unit.pods),
        ),
    )


def violations(units: Iterable[Unit], budgets: Sequence[PodDisruptionBudget]) -> list[int]:
    """Count the pods of each unit whose eviction violates a PodDisruptionBudget.

    Each pod, in the given order, uses up one of the allowed disruptions of every budget that selects it,
    unless the budget lists the pod as disrupted already. Budgets with an empty or malformed selector select
    no pod, and pods without labels are not selected.

    Parameters
    ----------
    units : iterable of Unit
    budgets : sequence of PodDisruptionBudget

    Returns
    -------
    list of int
        One for each unit.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    matchers = [budget_matcher(budget) for budget in budgets]

    def violates(pod: Pod) -> bool:
        exceeds = False
        for at, (budget, matcher) in enumerate(zip(budgets, matchers, strict=True)):
            labels = pod.metadata.labels
            if matcher is None or not labels or budget.namespace != pod.namespace:
                continue
            if not matcher.matches(labels) or pod.name in budget.status.disrupted_pods:
                continue
            allowed[at] -= 1
            exceeds |= allowed[at] < 0
        return exceeds

    return [sum(map(violates, unit.pods)) for unit in units]
