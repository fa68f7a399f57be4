"""Which of two pods is more important, and which of them a PodDisruptionBudget protects.

kube-scheduler v1.36, util/utils.go MoreImportantPod, defaultpreemption filterPodsWithPDBViolation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from moorage.errors import InputError
from moorage.objects.pod import Pod
from moorage.objects.policy import PodDisruptionBudget
from moorage.objects.selectors import LabelSelectorMatcher

from .eligibility import priority_of

YOUNGEST = float("inf")


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


def split_by_budget(
    pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """Those of some pods whose going a PodDisruptionBudget does not allow, and the others.

    Each pod, in the given order, uses up one of the disruptions that every budget allows which selects it,
    unless the budget knows already that the pod goes. Budgets with an empty or malformed selector, and pods
    without labels, do not concern one another.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    matchers = [_matcher(budget) for budget in budgets]
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        violates = False
        for at, (budget, matcher) in enumerate(zip(budgets, matchers, strict=True)):
            labels = pod.metadata.labels
            if matcher is None or not labels or budget.namespace != pod.namespace:
                continue
            if not matcher.matches(labels) or pod.name in budget.status.disrupted_pods:
                continue
            allowed[at] -= 1
            violates |= allowed[at] < 0
        (violating if violates else others).append(pod)
    return violating, others


def _matcher(budget: PodDisruptionBudget) -> LabelSelectorMatcher | None:
    """What a budget selects; None for nothing."""
    try:
        matcher = LabelSelectorMatcher(budget.spec.selector)
    except ValueError:
        return None
    return None if matcher.is_empty else matcher
