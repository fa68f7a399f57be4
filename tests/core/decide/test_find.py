"""A decision in parts: find, score and pick come to what decide comes to; marks and groups of verdicts."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.made_up import make_node, make_pod, make_spec
from tests.doors.engine import Placer, group_by_verdict
from tests.make import node, pod

from moorage import Scheduler
from moorage.kube import Cluster, decode_object


def in_parts(placer: Placer, target: tuple[int, int, int]) -> tuple[object, ...]:
    """What `Placer.decide` answers, by its parts."""
    start, looked_at, positions = placer.decider.find(*target)
    rows = placer.search.state.view.rows()[positions]
    assert set(rows) <= set(looked_at)
    assert len(set(looked_at.tolist())) == len(looked_at)
    totals = placer.decider.score(rows, *target) if len(rows) > 1 else None
    row = -1
    if len(rows):
        row = rows[0 if totals is None else placer.decider.pick(totals)]
    return row, start, len(looked_at), positions.tolist(), None if totals is None else totals.tolist()


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**64),
    st.sampled_from([1, 2, 30, 130]),
    st.sampled_from([0, 7, 100]),
    st.sampled_from(["first", "go-heap"]),
)
def test_the_parts_of_a_decision(seed: int, nodes: int, percentage: int, tie_break: str) -> None:
    random = Random(seed)
    cluster = Cluster(nodes=[decode_object(make_node(random, at)) for at in range(nodes)])  # type: ignore[misc]
    one = Scheduler(cluster, percentage_of_nodes_to_score=percentage, tie_break=tie_break)
    for at in range(8):
        waiting = decode_object(make_pod(f"p{at}", make_spec(random, nodes)))
        target = one.context.target_of(waiting)  # type: ignore[arg-type]
        start = one.placer.decider.start
        parts, after = in_parts(one.placer, target), one.placer.decider.start
        one.placer.decider.start = start
        row, began, evaluated, positions, totals = one.placer.decider.decide(*target)
        whole = row, began, evaluated, positions.tolist(), None if totals is None else totals.tolist()
        assert (parts, after) == (whole, one.placer.decider.start)
        if row >= 0:
            one.context.assume(waiting, one.table.row_name(row))  # type: ignore[arg-type]


def three() -> Scheduler:
    return Scheduler(Cluster(nodes=[node(name) for name in "abc"]), tie_break="go-heap", seed=5)


def test_a_rollback_takes_the_lots_back() -> None:
    one = three()
    totals, drawn = np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=bool)
    with one.cache.transaction():
        first = one.placer.decider.pick(totals, drawn)
    assert one.placer.decider.pick(totals, drawn) == first
    assert one.placer.decider.pick(totals, drawn) != first


# ---- marks and groups of verdicts


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**64), st.sampled_from([1, 5, 70]))
def test_marks_are_at_the_rows_whose_verdict_is_0(seed: int, nodes: int) -> None:
    random = Random(seed)
    cluster = Cluster(nodes=[decode_object(make_node(random, at)) for at in range(nodes)])  # type: ignore[misc]
    one = Scheduler(cluster)
    marks = np.full(nodes + 2, 7, np.int8)
    for at in range(6):
        waiting = decode_object(make_pod(f"p{at}", make_spec(random, nodes)))
        target = one.context.target_of(waiting)  # type: ignore[arg-type]
        count = one.placer.search.mark_feasible(marks, *target)
        rows, verdicts = one.placer.search.verdicts(*target)
        assert np.flatnonzero(marks).tolist() == sorted(rows[verdicts == 0].tolist())
        assert count == marks.sum()


def test_marks_need_room_and_count_nominated_pods() -> None:
    one = three()
    search, target = one.placer.search, one.context.target_of(pod("p", requests={"cpu": 3}))
    with pytest.raises(ValueError, match="3 rows, where 2 have room"):
        search.mark_feasible(np.zeros(2, np.int8), *target)
    marks = np.zeros(3, np.int8)
    search.nominate([(1, [pod("n", requests={"cpu": 2})])])
    assert (search.mark_feasible(marks, *target), marks.tolist()) == (2, [1, 0, 1])


@given(st.lists(st.sampled_from([0, 1, 2**64 - 1])))
def test_items_by_verdict(verdicts: list[int]) -> None:
    items = [f"n{at}" for at in range(len(verdicts))]
    expected: dict[int, list[str]] = {}
    for verdict, item in zip(verdicts, items, strict=True):
        expected.setdefault(verdict, []).append(item)
    groups = group_by_verdict(np.array(verdicts, dtype=np.uint64), items)
    assert groups == expected
    assert list(groups) == list(expected)


def test_as_many_items_as_verdicts() -> None:
    with pytest.raises(ValueError, match="1 verdicts for 2 items"):
        group_by_verdict(np.zeros(1, dtype=np.uint64), ["a", "b"])
