"""The choice of one node among candidates."""

from __future__ import annotations

from tests.preemption.world import victim

from moorage.framework.plugin.extender import Victims
from moorage.preemption import Candidate, pick_one_node
from moorage.preemption.pick import CRITERIA


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


def test_fewest_violations_go_before_all_else() -> None:
    assert choose(candidate("a", (0, 0), violations=1), candidate("b", (9, 0), (9, 0))) == (
        *("b", "pdb violations"),
        ("b",),
    )


def test_then_the_lowest_highest_priority() -> None:
    assert choose(candidate("a", (5, 0)), candidate("b", (4, 0), (4, 0))) == ("b", "highest priority", ("b",))


def test_then_the_smallest_sum_of_priorities() -> None:
    assert choose(candidate("a", (5, 0), (4, 0)), candidate("b", (5, 0), (3, 0))) == (
        *("b", "sum of priorities"),
        ("b",),
    )


def test_more_victims_of_negative_priority_are_not_cheaper() -> None:
    assert choose(candidate("a", (-1, 0), (-9, 0)), candidate("b", (-1, 0))) == (
        "b",
        "sum of priorities",
        ("b",),
    )


def test_the_number_of_victims_is_in_their_sum_already() -> None:
    """The sum adds 2**31 per victim, so that only a priority of -2**31 lets it be equal."""
    assert choose(candidate("a", (5, 0), (-(2**31), 0)), candidate("b", (5, 0))) == (
        *("b", "number of victims"),
        ("b",),
    )


def test_then_the_latest_start_among_the_most_important_victims() -> None:
    assert choose(candidate("a", (5, 1), (1, 9)), candidate("b", (5, 2), (1, 0))) == (
        "b",
        "start time",
        ("b",),
    )
    assert choose(candidate("a", (5, 1), (5, 9)), candidate("b", (5, 2), (5, 3))) == (
        "b",
        "start time",
        ("b",),
    )
    unstarted = Candidate("b", Victims((victim("v", priority=5, start=None),)))
    assert choose(candidate("a", (5, 59)), unstarted) == ("b", "start time", ("b",)), "the youngest of all"


def test_of_equal_ones_the_first() -> None:
    three = [candidate("c", (1, 0)), candidate("b", (2, 0)), candidate("a", (1, 0))]
    assert choose(*three) == ("c", "order", ("c", "a"))
    assert choose(*three[::-1]) == ("a", "order", ("a", "c"))


def test_the_criteria_are_these() -> None:
    assert [name for name, _ in CRITERIA] == [
        *("pdb violations", "highest priority", "sum of priorities", "number of victims", "start time")
    ]
