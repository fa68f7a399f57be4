"""Which pod is more important, and which of them budgets protect."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import Unit, start_time, violations
from tests.preemption.world import budget, victim

from moorage.errors import InputError
from moorage.kube import LabelSelector, LabelSelectorRequirement, Pod, PodDisruptionBudgetSpec

LABELS = {"app": "x"}


def test_a_start_that_is_no_time_is_an_error_that_names_the_pod() -> None:
    with pytest.raises(InputError, match=r"^pod default/v: status.startTime 'soon' is not a time$"):
        start_time(victim("v", start="soon"))
    assert start_time(victim("v", start="2026-03-11T10:00:00")) == start_time(victim("v"))


def protected(pods: list[Pod], *budgets: object) -> list[str]:
    counts = violations([Unit((one,), 0) for one in pods], budgets)  # type: ignore[arg-type]
    assert violations([Unit(tuple(pods), 0)], budgets) == [sum(counts)]  # type: ignore[arg-type]
    return [one.name for one, count in zip(pods, counts, strict=True) if count]


def test_whom_a_budget_does_not_concern() -> None:
    one = victim("a", labels=LABELS)
    assert protected([one], budget(0, LABELS, namespace="other")) == []
    assert protected([one], budget(0, LABELS, disrupted=("a",))) == [], "it counts as gone already"
    assert protected([one], budget(0, {})) == [], "an empty selector"
    assert protected([one], budget(0, {"app": "y"})) == []
    no_selector = replace(budget(0, {}), spec=PodDisruptionBudgetSpec())
    assert protected([one], no_selector) == []
    wrong = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="In"),))
    assert protected([one], replace(no_selector, spec=PodDisruptionBudgetSpec(selector=wrong))) == []


def test_a_pod_without_labels_is_never_protected() -> None:
    absent = LabelSelector(match_expressions=(LabelSelectorRequirement(key="x", operator="DoesNotExist"),))
    all_without_x = replace(budget(0, {}), spec=PodDisruptionBudgetSpec(selector=absent))
    assert protected([victim("a")], all_without_x) == []
    assert protected([victim("a", labels=LABELS)], all_without_x) == ["a"]
