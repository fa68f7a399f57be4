"""ScoredNodes against a twin: Go's container/heap, or a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.engine import ClusterState, Placements, Placer, Plan, PythonExternal, ScoredNodes, TieBreak
from tests.make import node, pod

from moorage import Scheduler
from moorage.kube import Cluster

Nodes = list[tuple[int, int]]


def sift_down(heap: Nodes, at: int, n: int) -> None:
    while (child := 2 * at + 1) < n:
        if child + 1 < n and heap[child + 1][0] > heap[child][0]:
            child += 1
        if heap[child][0] <= heap[at][0]:
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


def by_heap(totals: list[int]) -> list[int]:
    """The indexes of nodes in the order in which Go's container/heap yields them."""
    heap, order = [(total, at) for at, total in enumerate(totals)], list[int]()
    for at in range(len(heap) // 2 - 1, -1, -1):
        sift_down(heap, at, len(heap))
    while heap:
        heap[0], heap[-1] = heap[-1], heap[0]
        sift_down(heap, 0, len(heap) - 1)
        order.append(heap.pop()[1])
    return order


def scored(totals: list[int], is_heap: bool) -> ScoredNodes:
    names = np.arange(len(totals), dtype=np.int32)
    return ScoredNodes(b"s", 1.5, names, np.array(totals, dtype=np.int64), is_heap)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.booleans(), st.data())
def test_nodes_come_in_the_order_of_their_totals(
    totals: list[int], is_heap: bool, data: st.DataObject
) -> None:
    """Without the first one, which is chosen already; of equal totals the first that was found, or as the
    heap has it. A copy goes on by itself."""
    expected = by_heap(totals) if is_heap else sorted(range(len(totals)), key=lambda at: -totals[at])
    nodes, rest = scored(totals, is_heap), expected[1:]
    at = data.draw(st.integers(0, len(rest)))
    assert len(nodes) == len(rest)
    for name in rest[:at]:
        assert (nodes.best(), nodes.pop()) == (name, name)
    copy = nodes.copy()
    for each in (nodes, copy):
        assert len(each) == len(rest) - at
        assert [each.pop() for _ in rest[at:]] == rest[at:]
        with pytest.raises(IndexError, match="no node remains"):
            each.pop()
        with pytest.raises(IndexError, match="no node remains"):
            each.best()


def test_what_a_list_knows() -> None:
    copy = scored([1], True).copy()
    assert (copy.signature, copy.created, len(copy)) == (b"s", 1.5, 0)


@pytest.mark.parametrize(("names", "totals"), [(0, 0), (1, 2), (2, 1)])
def test_each_node_has_a_total(names: int, totals: int) -> None:
    with pytest.raises(ValueError, match=f"{names} nodes with {totals} totals"):
        ScoredNodes(b"", 0.0, np.zeros(names, np.int32), np.zeros(totals, np.int64), False)


@pytest.mark.parametrize("shape", [(2,), (1, 1), (2, 3), (1, 2, 2)])
def test_raw_scores_are_of_each_node(shape: tuple[int, ...]) -> None:
    names, totals = np.zeros(2, np.int32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match=r"raw scores of shape \(.*\) for 2 nodes"):
        ScoredNodes(b"", 0.0, names, totals, True, np.zeros(shape, np.int64))


@pytest.mark.parametrize("is_heap", [True, False])
def test_the_node_taken_last_is_known_until_all_are_scored_again(is_heap: bool) -> None:
    one = Scheduler(Cluster(nodes=[node(name) for name in "abc"]))
    search, table = one.placer.search, one.cache.state.table
    target = one.context.target_of(pod("p"))
    rows = search.searched_rows(*target)
    view = one.cache.state.view
    names = view.symbols_at(np.array([view.position_of(row) for row in rows], np.int32))
    with pytest.raises(ValueError, match="no raw scores of the plugins that score now"):
        ScoredNodes(b"", 0.0, names, np.arange(3), is_heap).rescored(search, target)
    with pytest.raises(ValueError, match="no raw scores of the plugins that score now"):
        ScoredNodes(b"", 0.0, names, np.arange(3), is_heap, np.zeros((1, 3), np.int64)).rescored(
            search, target
        )
    raw, seen = search.raw_scores(rows, *target), list[int]()
    nodes = ScoredNodes(b"s", 1.5, names, np.arange(3), is_heap, raw)
    assert (nodes.last_row(table), len(nodes)) == (rows[2], 2), "the one with the largest total"
    again = nodes.copy().rescored(search, target, lambda rows: seen.extend(rows.tolist()))
    assert again is not None
    assert (sorted(seen), seen[-1]) == (sorted(rows.tolist()), rows[2])
    assert (again.signature, again.created, len(again), again.last_row(table)) == (b"s", 1.5, 3, -1)
    with pytest.raises(ValueError, match="no node has been taken"):
        again.rescored(search, target)
    best = again.pop()
    assert names[rows.tolist().index(again.last_row(table))] == best
    one.client.delete("Node", "a")
    one.sync()
    assert nodes.rescored(search, target) is None


@pytest.mark.parametrize(("score", "is_kept"), [(-1, False), (0, True), (100, True), (101, False)])
def test_a_score_outside_its_range_drops_the_list(score: int, is_kept: bool) -> None:
    state = ClusterState()
    for name in "ab":
        state.set_node(node(name))
    plugin = PythonExternal("A", score=lambda rows: np.full(len(rows), score))
    search = Placer(state, Plan(state.table, [], [(plugin, 1)]), TieBreak.FIRST, 100).search
    target, rows = (state.classes.intern(pod("p")), 0, 0), np.arange(2, dtype=np.int32)
    state.view.refresh()
    names, raw = state.view.symbols_at(rows), np.zeros((1, 2), np.int64)
    nodes = ScoredNodes(b"", 0.0, names, np.arange(2), True, raw).rescored(search, target)
    assert (nodes is not None) is is_kept


def test_only_equal_pods_follow_a_list() -> None:
    one = Scheduler(Cluster(nodes=[node("a"), node("b")]))
    batch = one.context.batch_of([pod("p"), pod("q"), pod("r", requests={"cpu": 1})])
    search, short = one.placer.search, Placements(one.cache.state, 1, batch)
    for first, end in ((0, 3), (1, 0), (1, 3)):
        with pytest.raises(IndexError, match=f"pods {first} to {end} are not equal pods with a row"):
            scored([1, 2], True).place(search, batch, Placements(one.cache.state, 3, batch), first, end)
    with pytest.raises(IndexError, match="pods 0 to 2 are not equal pods with a row"):
        scored([1, 2], True).place(search, batch, short, 0, 2)
    for first in (-1, 3):
        with pytest.raises(IndexError, match=f"there is no pod {first} among 3"):
            scored([1, 2], True).place(search, batch, short, first, first)
