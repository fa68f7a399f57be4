"""The terms of other pods that apply to a class are found by the labels that they ask for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import node, pod

from moorage.objects.model.meta import LabelSelector, LabelSelectorRequirement
from moorage.objects.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm
from moorage.scheduler import Scheduler


def repelling(name: str, selector: LabelSelector | None, **labels: str) -> Pod:
    """A pod with anti-affinity to the pods that a selector selects."""
    term = PodAffinityTerm(topology_key="zone", label_selector=selector)
    return pod(
        name, on="n", labels=labels, affinity=Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    )


def asks(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))


@pytest.mark.parametrize(
    ("selector", "applies"),
    [
        (LabelSelector(match_labels={"a": "1"}), True),
        (LabelSelector(match_labels={"a": "1", "b": "1"}), False),
        (LabelSelector(match_labels={"a": "2"}), False),
        (asks("a", "In", "2", "1", "1"), True),
        (asks("a", "In", "2", "3"), False),
        (asks("a", "Exists"), True),
        (asks("a", "NotIn", "1"), False),
        (asks("b", "DoesNotExist"), True),
        (LabelSelector(), True),
        (None, False),
    ],
)
def test_a_term_applies_to_the_classes_that_it_selects(selector: Any, applies: bool) -> None:
    """Also to a class whose terms were read before."""
    scheduler = Scheduler()
    scheduler.cache.add_node(node("n", labels={"zone": "z"}))
    classes = scheduler.cache.state.classes
    search = next(iter(scheduler.engines.values())).search
    plain = classes.intern(pod("p", labels={"a": "1"}))
    before = search.terms_of(plain)
    assert not before.affinity_filters
    scheduler.cache.add_pod(repelling("q", selector))
    assert search.terms_of(plain).affinity_filters is applies
    # Terms that cannot select the pod do not void what was read.
    asked = selector is not None and selector.match_labels.get("a") == "2"
    assert not asked or search.terms_of(plain) is before
