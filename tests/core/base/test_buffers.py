"""Buffers and the journal: alignment, growth, and what a rollback takes back."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.core.inside import dump, entries, inside
from tests.doors.engine import Buffer, ClusterState, Journal
from tests.make import node, pod

from moorage.kube import Pod


@pytest.mark.parametrize(("itemsize", "items"), [(1, 1), (4, 16), (8, 1000), (64, 3)])
def test_buffers_are_zero_and_aligned(itemsize: int, items: int) -> None:
    buffer = Buffer(Journal(), itemsize, items)
    array = buffer.array("u1", items)
    assert (len(array), buffer.capacity, buffer.itemsize) == (items * itemsize, items, itemsize)
    assert not array.any()
    assert array.ctypes.data % 64 == 0


def test_arrays_share_memory_and_are_read_only() -> None:
    buffer = Buffer(Journal(), 8, 4)
    assert np.shares_memory(buffer.array("i8", 4), buffer.array("f8", 2))
    with pytest.raises(ValueError, match="read-only"):
        buffer.array("i8", 4)[0] = 1


def test_buffers_grow_by_doubling_and_arrays_are_stale_then() -> None:
    one = ClusterState()
    held = inside(one.table)["generation"]
    before, capacity = held.array("i8", held.capacity), held.capacity
    for number in range(capacity + 1):
        one.set_node(node(f"n{number}"))
    assert held.capacity == 2 * capacity
    generations = held.array("i8", one.table.used)
    assert not np.shares_memory(before, generations)
    assert generations.ctypes.data % 64 == 0
    assert (np.diff(generations) > 0).all()


# ---- rollback --------------------------------------------------------------------------------------------


def state() -> ClusterState:
    """Nodes a and b with an assumed pod on each, which may expire."""
    one = ClusterState()
    for name in "ab":
        one.set_node(node(name, zone=f"z{name}", labels={"disk": name}))
        one.assume_pod(bound(f"on-{name}", name))
        one.finish_binding(bound(f"on-{name}", name), 10.0)
    return one


def bound(name: str, on: str) -> Pod:
    return pod(name, on=on, requests={"cpu": 1})


def test_growth_inside_a_transaction_is_undone() -> None:
    one = state()
    before = dump(one)
    mark = one.begin()
    for number in range(100):
        one.set_node(node(f"n{number}", **{f"example.com/{number}": 1}))
        one.add_pod(bound(f"p{number}", f"n{number}"))
    one.rollback(mark)
    assert dump(one, before) == before
    assert one.table.names == ["a", "b"]


def test_the_view_has_room_for_rows_that_are_gone_but_logged() -> None:
    one = state()
    one.view.refresh()
    mark = one.begin()
    for number in range(500):
        one.set_node(node(f"n{number}"))
    one.rollback(mark)
    logged = max(row for _, row in entries(one.log, 0))
    assert inside(one.view)["position"].capacity > logged >= 500
    assert one.view.node_names() == ["a", "b"]


def test_the_journal_itself_grows() -> None:
    one = state()
    before = dump(one)
    mark = one.begin()
    for number in range(2000):
        one.set_node(node("a", cpu=str(number)))
    one.rollback(mark)
    assert dump(one, before) == before


def test_nothing_is_recorded_outside_a_transaction() -> None:
    one = state()
    one.commit(one.begin())
    one.remove_node("a")
    assert (one.journal.depth, inside(one.journal)["actions"], one.journal.begin()) == (0, [], 0)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_undo_that_raises_does_not_keep_the_others_from_being_called(error: type[BaseException]) -> None:
    one = state()
    before, head, epoch = dump(one), one.log.head, one.journal.undone
    mark = one.begin()
    one.remove_node("a")
    one.set_node(node("c", zone="zc"))
    one.assume_pod(bound("p", "c"))
    actions = inside(one.journal)["actions"]

    def failing(undo: Any) -> None:
        undo()
        raise error("as memory runs out")

    called = [at for at, undo in enumerate(actions) if callable(undo)]
    assert 1 < len(called) < len(actions)
    for at in called:
        actions[at] = partial(failing, actions[at])
    with pytest.raises(error, match="as memory runs out"):
        one.rollback(mark)
    assert dump(one, before) == before
    assert (one.journal.depth, one.journal.undone) == (0, epoch + 1)
    assert one.log.head > head  # who has seen what was undone hears of it
