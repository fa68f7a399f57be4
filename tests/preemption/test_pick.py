"""The choice of one node among candidates."""

from __future__ import annotations

import pytest
from tests.preemption.world import victim

from moorage.engine.framework import Victims
from moorage.engine.preemption import Candidate, pick_one_node


def at(second: int) -> str:
    return f"2026-03-11T10:00:{second:02}Z"


def candidate(name: str, *victims: tuple[int, int], violations: int = 0) -> Candidate:
    """Victims by (priority, second of the start)."""
    pods = [victim(f"{name}{i}", priority=p, start=at(s)) for i, (p, s) in enumerate(victims)]
    return Candidate(name, Victims(tuple(pods), violations))


def choose(*candidates: Candidate) -> tuple[str, str, tuple[str, ...]]:
    choice = pick_one_node(candidates)
    assert choice is not None
    return choice.candidate.name, choice.criterion, choice.tied


def test_none_of_none() -> None:
    assert pick_one_node([]) is None


def test_a_single_candidate_is_taken() -> None:
    assert choose(candidate("a", (1, 0), violations=9)) == ("a", "only candidate", ("a",))


UNSTARTED = Candidate("b", Victims((victim("v", priority=5, start=None),)))


@pytest.mark.parametrize(
    ("criterion", "worse", "better"),
    [
        ("pdb violations", candidate("a", (0, 0), violations=1), candidate("b", (9, 0), (9, 0))),
        ("highest priority", candidate("a", (5, 0)), candidate("b", (4, 0), (4, 0))),
        ("sum of priorities", candidate("a", (5, 0), (4, 0)), candidate("b", (5, 0), (3, 0))),
        # More victims of negative priority are not cheaper.
        ("sum of priorities", candidate("a", (-1, 0), (-9, 0)), candidate("b", (-1, 0))),
        # The sum adds 2**31 per victim, so that only a priority of -2**31 lets it be equal.
        ("number of victims", candidate("a", (5, 0), (-(2**31), 0)), candidate("b", (5, 0))),
        # The latest start among the most important victims, and of those the earliest.
        ("start time", candidate("a", (5, 1), (1, 9)), candidate("b", (5, 2), (1, 0))),
        ("start time", candidate("a", (5, 1), (5, 9)), candidate("b", (5, 2), (5, 3))),
        ("start time", candidate("a", (5, 59)), UNSTARTED),
    ],
)
def test_criteria_in_their_order(criterion: str, worse: Candidate, better: Candidate) -> None:
    assert choose(worse, better) == ("b", criterion, ("b",))


def test_of_equal_ones_the_first() -> None:
    three = [candidate("c", (1, 0)), candidate("b", (2, 0)), candidate("a", (1, 0))]
    assert choose(*three) == ("c", "order", ("c", "a"))
    assert choose(*three[::-1]) == ("a", "order", ("a", "c"))
