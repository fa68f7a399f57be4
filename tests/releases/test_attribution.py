"""Which behaviours make a difference, by runs with some of them switched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest
from tests.doors.kube import Cause, find_causes

NAMES = tuple("abcdefgh")


def world(rules: Mapping[str, Callable[[frozenset[str]], str]]) -> tuple[list[frozenset[str]], Any]:
    """A run that notes its switches and returns what each rule makes of them."""
    tried: list[frozenset[str]] = []

    def run(names: Collection[str]) -> dict[str, str]:
        tried.append(frozenset(names))
        return {key: rule(tried[-1]) for key, rule in rules.items()}

    return tried, run


def needs(*names: str) -> Callable[[frozenset[str]], str]:
    return lambda switches: "n2" if switches.issuperset(names) else "n1"


@pytest.mark.parametrize(
    ("rule", "cause", "text"),
    [
        (needs("c"), Cause((("c",),)), "c"),
        (lambda on: "n2" if on & {"b", "f"} else "n1", Cause((("b",), ("f",))), "b or f"),
        (needs("a", "d"), Cause((("a", "d"),)), "a with d"),
        (needs("a", "d", "e"), Cause((("a", "d", "e"),)), "a with d with e"),
        (
            lambda on: "n2" if "a" in on and on & {"b", "c"} else "n1",
            Cause((("a", "c"),)),  # b is switched back first, as c is enough
            "a with c",
        ),
    ],
)
def test_a_difference_has_the_smallest_cause(
    rule: Callable[[frozenset[str]], str], cause: Cause, text: str
) -> None:
    _, run = world({"p": rule, "same": needs("z")})
    assert find_causes(run, NAMES) == {"p": cause}
    assert cause.text == text


def test_what_a_behaviour_makes_of_a_pod_alone_is_not_the_difference_if_another_moves_it_on() -> None:
    places = {frozenset("a"): "n3", frozenset("ab"): "n2"}
    _, run = world({"p": lambda on: places.get(on & {"a", "b"}, "n1")})
    assert find_causes(run, NAMES) == {"p": Cause((("a", "b"),))}


def test_each_pod_has_its_own_cause() -> None:
    tried, run = world({"p": needs("c"), "q": needs("a", "b"), "r": needs("a", "b", "d")})
    found = find_causes(run, NAMES)
    assert {key: cause.text for key, cause in found.items()} == {
        "p": "c",
        "q": "a with b",
        "r": "a with b with d",
    }
    assert len(tried) == len(set(tried))


def test_more_than_can_be_tried_together_is_not_pinned() -> None:
    many = NAMES[:5]  # four are tried together at most
    tried, run = world({"p": needs(*many), "q": needs("a", "b")})
    found = find_causes(run, NAMES)
    assert found["p"] == found["q"] == Cause((many,), is_pinned=False)
    assert found["p"].text == "some of a, b, c, d, e"
    assert len(tried) <= 2 + 2 * len(NAMES)


def test_without_a_difference_nothing_is_switched() -> None:
    tried, run = world({"p": lambda on: "n1"})
    assert find_causes(run, NAMES) == {}
    assert len(tried) == 2


def test_a_pod_that_is_only_there_on_one_side_differs() -> None:
    def run(names: Collection[str]) -> dict[str, str]:
        return {"p": "n1"} if "c" in names else {}

    assert find_causes(run, NAMES) == {"p": Cause((("c",),))}
