"""Plugins in a plan that are no kernels: when they are asked, and what their answers and failures do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.core.placing import place_run
from tests.doors.engine import (
    REASONS,
    UNRESOLVABLE,
    VERDICT_SHIFT,
    ClusterState,
    Placer,
    Plan,
    PythonExternal,
    TieBreak,
)
from tests.make import node, pod

FIT: Any = [("cpu", 1), ("memory", 1)]


class Asked:
    """Remembers the rows that a plugin was asked about."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.rows: list[list[int]] = []
        self.answer = answer

    def __call__(self, rows: Any) -> Any:
        self.rows.append(rows.tolist())
        return self.answer(rows)


def make(filters: list[Any], scores: list[Any], nodes: int = 4, percentage: int = 100) -> Placer:
    """Nodes n0, n1, ... of which every third is full."""
    state = ClusterState()
    for at in range(nodes):
        state.set_node(node(f"n{at}", cpu=0 if at % 3 == 2 else 4))
    return Placer(
        state, Plan(state.table, filters, scores, fit=FIT, balanced=FIT), TieBreak.FIRST, percentage
    )


def target(placer: Placer) -> int:
    return placer.search.state.classes.intern(pod("p", requests={"cpu": 1}))


def codes(*values: int) -> Callable[[Any], Any]:
    """A code by row."""
    return lambda rows: np.array([values[row] for row in rows])


def test_a_filter_is_asked_about_what_earlier_ones_passed() -> None:
    before, after = Asked(codes(0, 2, 0, 0)), Asked(codes(0, 0, 0, 3))
    filters = [PythonExternal("A", before), "NodeResourcesFit", PythonExternal("B", after)]
    placer = make(filters, [])
    rows, verdicts = placer.search.verdicts(target(placer))
    assert before.rows == [[0, 1, 2, 3]]
    assert after.rows == [[0, 3]]
    found = {
        row: (verdict >> VERDICT_SHIFT, bool(verdict & UNRESOLVABLE), verdict & REASONS)
        for row, verdict in zip(rows.tolist(), verdicts.tolist(), strict=True)
    }
    assert found == {0: (0, False, 0), 1: (1, False, 1), 2: (2, True, 2), 3: (3, True, 1)}


@pytest.mark.parametrize(
    "native", [["NodeResourcesFit"], ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit"]]
)
def test_a_search_takes_what_all_pass(native: list[str]) -> None:
    """With the fused kernel, and without."""
    filters = [*native, PythonExternal("A", lambda rows: np.where(rows % 2 == 1, 2, 0))]
    placer = make(filters, [("NodeResourcesFit", 1)], nodes=700)
    row, start, evaluated, positions, _ = placer.decider.decide(target(placer))
    expected = [at for at in range(700) if at % 3 != 2 and at % 2 == 0]
    assert (row, start, evaluated, positions.tolist()) == (0, 0, 700, expected)


def lose(rows: Any) -> Any:
    raise LookupError("lost")


@pytest.mark.parametrize("ask", ["decide", "verdicts"])
def test_what_a_filter_raises_comes_out(ask: str) -> None:
    placer = make([PythonExternal("A", lose)], [])
    asked = placer.decider.decide if ask == "decide" else placer.search.verdicts
    for _ in range(2):
        with pytest.raises(LookupError, match=r"^lost$"):
            asked(target(placer))


def test_a_run_ends_before_the_pod_that_a_plugin_fails_about() -> None:
    left = [2]

    def count_down(rows: Any) -> Any:
        left[0] -= 1
        return lose(rows) if left[0] < 0 else np.zeros(len(rows), dtype=np.uint8)

    placer = make([PythonExternal("A", count_down)], [])
    rows = place_run(placer, target(placer), 5)
    assert (len(rows), placer.decider.failed, placer.decider.start) == (2, True, 2)


FITTING: Any = [("NodeResourcesFit", 1)]


def failing_at(row: int) -> Callable[[Any], Any]:
    """A filter that fails for blocks with a row."""

    def filter(rows: Any) -> Any:
        if row in rows:
            raise ValueError(f"row {row}")
        return np.zeros(len(rows), dtype=np.uint8)

    return filter


def fails_for_a_node(name: str, filter: Callable[[Any], Any]) -> PythonExternal:
    plugin = PythonExternal(name, filter)
    plugin.node_error = ValueError
    return plugin


def test_the_nodes_before_the_one_for_which_a_filter_fails_count() -> None:
    placer = make([fails_for_a_node("A", failing_at(2))], FITTING)
    with pytest.raises(ValueError, match=r"^row 2$"):
        placer.decider.decide(target(placer))
    assert placer.decider.start == 2


def test_the_filter_that_fails_for_the_first_node_is_the_one_that_failed() -> None:
    """Although the other one is asked about all nodes before it."""
    placer = make([fails_for_a_node(name, failing_at(row)) for name, row in (("A", 2), ("B", 1))], FITTING)
    with pytest.raises(ValueError, match=r"^row 1$"):
        placer.decider.decide(target(placer))
    assert placer.decider.start == 1
    with pytest.raises(ValueError, match=r"^row 1$"):
        placer.decider.decide(target(placer))
    assert placer.decider.start == 1


def test_a_filter_that_fails_behind_the_nodes_that_are_wanted_does_not_matter() -> None:
    placer = make([fails_for_a_node("A", failing_at(149))], FITTING, nodes=150, percentage=0)
    assert len(placer.decider.decide(target(placer))[3]) == 100
    assert placer.decider.start == 100


def test_large_blocks_are_asked_at_once() -> None:
    asked = Asked(lambda rows: np.zeros(len(rows), dtype=np.uint8))
    placer = make([PythonExternal("A", asked)], [("NodeResourcesFit", 1)], nodes=5000)
    assert len(placer.decider.decide(target(placer))[3]) == 5000
    assert [len(rows) for rows in asked.rows] == [2048, 2048, 904]


@pytest.mark.parametrize(
    ("filter", "score", "text"),
    [
        (lambda rows: [0], None, "plugin A answered 1 codes for 4 nodes"),
        (None, lambda rows: [1, 2], "plugin A answered 2 scores for 4 nodes"),
    ],
)
def test_answers_of_another_length(filter: Any, score: Any, text: str) -> None:
    plugin = PythonExternal("A", filter, score)
    placer = make([plugin] if filter else [], [(plugin, 1)] if score else [])
    with pytest.raises(ValueError, match=rf"^{text}$"):
        placer.decider.decide(target(placer))


def test_raw_scores_are_those_before_normalization() -> None:
    """Of what has no rule for it, `score` is asked; nobody is asked about a row whose score is known."""
    asked = Asked(lambda rows: 3 * rows)
    halved = PythonExternal("B", score=Asked(lambda rows: rows), examine=lambda rows: (2 * rows, rows))
    scores = [("NodeResourcesFit", 1), (PythonExternal("A", score=asked), 1), (halved, 1)]
    placer = make([], scores)
    search, rows = placer.search, np.array([3, 1], dtype=np.int32)
    raw = search.raw_scores(rows, target(placer))
    assert raw[0].tolist() == search.scores("NodeResourcesFit", rows, target(placer))[0].tolist()
    assert raw[1:].tolist() == [[9, 3], [6, 2]]
    asked.rows.clear()
    plugin = placer.search.plan.externals[0]
    assert isinstance(plugin, PythonExternal)
    found = plugin.examine(rows, np.array([5], dtype=np.int64))
    assert [one.tolist() for one in found] == [[5, 3], [5, 3]]
    assert asked.rows == [[1]]


def test_plugins_that_are_skipped_for_other_classes_are_asked_about_pods_with_plugins() -> None:
    skipped, always = Asked(codes(2, 0, 0, 0)), PythonExternal("A", codes(0, 0, 0, 0))
    state = ClusterState()
    for at in range(4):
        state.set_node(node(f"n{at}", cpu=4))
    made: list[Plan] = []

    def complete(plan: Plan) -> Plan:
        filters: Any = ["NodeName", PythonExternal("B", skipped), always]
        made.append(Plan(state.table, filters, [], externals=plan.externals))
        return made[-1]

    plan = Plan(state.table, ["NodeName", always], [], with_skipped=complete)
    placer = Placer(state, plan, TieBreak.FIRST, 100)
    plain = target(placer)
    asking = state.classes.with_plugins(plain)
    assert [state.classes.asks_plugins(one) for one in (plain, asking)] == [False, True]
    assert state.classes.with_plugins(asking) == asking
    assert state.classes.shape_of(asking) is state.classes.shape_of(plain)
    assert not placer.search.verdicts(plain)[1].any()
    assert not made, "it is made for the first pod that needs it"
    for _ in range(2):
        _, verdicts = placer.search.verdicts(asking)
        assert [int(one) >> VERDICT_SHIFT for one in verdicts] == [2, 0, 0, 0]
        for pods, row in (asking, 1), (plain, 0):
            placer.decider.start = 0
            assert placer.decider.decide(pods)[0] == row
    assert len(made) == 1
    assert [placer.search.plan_of(one) for one in (plain, asking)] == [plan, made[0]]


@pytest.mark.parametrize("externals", [[], ["other"]])
def test_a_plan_that_completes_another_begins_with_its_externals(externals: list[str]) -> None:
    table, first = ClusterState().table, PythonExternal("A", codes(0))
    others: Any = [PythonExternal(name, codes(0)) for name in externals]
    plan = Plan(table, [first], [], with_skipped=lambda _: Plan(table, others, []))
    for _ in range(2):
        with pytest.raises(ValueError, match="has its externals"):
            plan.complete()
