"""The terms of other pods that apply to a class are found by the labels that they ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib
from tests.core.kernel_world import World
from tests.core.make import node, pod

from moorage import Scheduler
from moorage.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Pod,
    PodAffinity,
    PodAffinityTerm,
)


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


counted = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3)  # pods that stay, and that go


@given(
    st.integers(0, 2),
    st.lists(st.integers(0, 2), max_size=2),
    st.integers(0, 2),
    counted,
    counted,
    st.booleans(),
)
def test_pods_that_are_removed_from_a_node_do_not_count(
    n_hard: int,
    near: list[int],
    gone: int,
    anti: list[tuple[int, int]],
    existing: list[tuple[int, int]],
    self_affine: bool,
) -> None:
    """As if the counters had never counted them. Pods that match all required terms have one count."""
    world = World()

    def verdict(are_counted: bool) -> int:
        terms = world.new("mr_terms *", {"n_hard": n_hard, "self_affine": self_affine})
        for kind, counts in (
            ("affinity", [(stay, gone) for stay in near]),
            ("anti", anti),
            ("existing", existing),
        ):
            items = world.new(f"mr_pod_term[{max(len(counts), 1)}]")
            for item, (stay, go) in zip(items, counts, strict=False):
                pods = stay + go * are_counted
                counter = {
                    "domain": world.array("int32_t", [2]),
                    "pods": world.array("int32_t", [pods, 0, pods]),
                }
                item.counter = world.new("mr_counter *", counter)
            setattr(terms, kind, items)
            setattr(terms, f"n_{kind}", len(counts))
        removed = [9] * n_hard + [gone] + [go for _, go in (*anti, *existing)]
        return int(lib.mr_inter_pod_filter(terms, 0, removed if are_counted else ffi.NULL))

    assert verdict(True) == verdict(False)
