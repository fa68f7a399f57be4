"""Which of two pods is more important, and which of them a PodDisruptionBudget protects.

kube-scheduler v1.36, util/utils.go MoreImportantPod, defaultpreemption filterPodsWithPDBViolation; for pods
that are only evicted together v1.37, framework/preemption/util.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from moorage.errors import InputError
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget
from moorage.objects.model.selectors import LabelSelectorMatcher

YOUNGEST = float("inf")


def priority_of(pod: Pod) -> int:
    """A pod's priority; 0 where it has none."""
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
        Whether these are all pods of a group that have a node; or one for which a group counts.
    """

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False


def start_time(pod: Pod) -> float:
    """When a pod was started, in seconds since 1970. One that has not been is the youngest: upstream takes
    the present for it, each time anew."""
    if pod.status.start_time is None:
        return YOUNGEST
    try:
        return _seconds(pod.status.start_time)
    except ValueError as error:
        raise InputError(
            f"pod {pod.key}: status.startTime {pod.status.start_time!r} is not a time"
        ) from error


@lru_cache(1 << 16)
def _seconds(text: str) -> float:
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """The most important pod first: by priority, then by how long it has run. Of pods that are equal in
    both, where upstream's order is left to its sort, the one that stands earlier is more important."""
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_time(pod)))


def units_by_importance(units: Iterable[Unit]) -> list[Unit]:
    """The most important unit first: by priority; groups before pods; groups by the number of their pods; by
    how long the oldest pod has run. Equal ones as they stand."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            not unit.is_group,
            -len(unit.pods),
            min(start_time(pod) for pod in unit.pods),
        ),
    )


def split_by_budget(
    pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """Those of some pods whose going a PodDisruptionBudget does not allow, and the others; see
    `violations`."""
    each = [Unit((pod,), 0) for pod in pods]
    violating: list[Pod] = []
    others: list[Pod] = []
    for unit, violates in zip(each, violations(each, budgets), strict=True):
        (violating if violates else others).append(unit.pods[0])
    return violating, others


def violations(units: Iterable[Unit], budgets: Sequence[PodDisruptionBudget]) -> list[int]:
    """Of each unit, how many pods there are whose going a PodDisruptionBudget does not allow.

    Each pod, in the given order, uses up one of the disruptions that every budget allows which selects it,
    unless the budget knows already that the pod goes. Budgets with an empty or malformed selector, and pods
    without labels, do not concern one another.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    matchers = [_matcher(budget) for budget in budgets]

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


def _matcher(budget: PodDisruptionBudget) -> LabelSelectorMatcher | None:
    """What a budget selects; None for nothing."""
    try:
        matcher = LabelSelectorMatcher(budget.spec.selector)
    except ValueError:
        return None
    return None if matcher.is_empty else matcher
