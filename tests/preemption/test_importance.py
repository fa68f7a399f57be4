"""Which pod is more important, and which of them budgets protect."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import Unit, by_importance, start_time, violations
from tests.preemption.world import budget, victim

from moorage.errors import InputError
from moorage.objects import LabelSelector, LabelSelectorRequirement, Pod, PodDisruptionBudgetSpec

LABELS = {"app": "x"}


def names(pods: list[Pod]) -> list[str]:
    return [one.name for one in pods]


def test_priority_goes_before_the_start_and_the_start_before_the_place() -> None:
    pods = [
        victim("young", start="2026-03-11T10:00:02Z"),
        victim("unstarted", start=None),
        victim("old", start="2026-03-11T10:00:01Z"),
        victim("also unstarted", start=None),
        victim("high", priority=1, start=None),
        victim("also old", start="2026-03-11T11:00:01+01:00"),
    ]
    expected = ["high", "old", "also old", "young", "unstarted", "also unstarted"]
    assert names(by_importance(pods)) == expected


def test_a_pod_without_priority_has_priority_0() -> None:
    none = replace(victim("none"), spec=replace(victim("none").spec, priority=None))
    assert names(by_importance([victim("below", priority=-1), none, victim("above", priority=1)])) == [
        *("above", "none", "below")
    ]


def test_a_start_that_is_no_time_is_an_error_that_names_the_pod() -> None:
    with pytest.raises(InputError, match=r"^pod default/v: status.startTime 'soon' is not a time$"):
        start_time(victim("v", start="soon"))
    assert start_time(victim("v", start="2026-03-11T10:00:00")) == start_time(victim("v"))


def protected(pods: list[Pod], *budgets: object) -> list[str]:
    counts = violations([Unit((one,), 0) for one in pods], budgets)  # type: ignore[arg-type]
    assert violations([Unit(tuple(pods), 0)], budgets) == [sum(counts)]  # type: ignore[arg-type]
    return [one.name for one, count in zip(pods, counts, strict=True) if count]


def test_a_budget_is_used_up_in_the_given_order() -> None:
    pods = [victim(name, labels=LABELS) for name in "abc"]
    assert protected(pods, budget(2, LABELS)) == ["c"]
    assert protected(pods[::-1], budget(2, LABELS)) == ["a"]
    assert protected(pods, budget(0, LABELS)) == ["a", "b", "c"]
    assert protected(pods, budget(3, LABELS)) == []


def test_each_budget_that_selects_a_pod_is_used_up() -> None:
    pods = [victim("a", labels=LABELS | {"tier": "1"}), victim("b", labels=LABELS)]
    assert protected(pods, budget(1, LABELS), budget(0, {"tier": "1"})) == ["a", "b"]


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
