"""Each allocation of Python fails in turn while a cluster state changes: MemoryError, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.core.inside import dump
from tests.core.make import node, pod

from moorage._core.base.buffers import Journal
from moorage._core.state.cluster_state import ClusterState

memory = pytest.importorskip("_testcapi", reason="a CPython without its test modules")
Operation = Callable[[ClusterState], object]
# Cython tells of generators that it closes while an exception is on its way.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def without(allocation: int, operation: Callable[[], object]) -> bool:
    """Carry an operation out while one allocation fails; whether it ran out of memory."""
    memory.set_nomemory(allocation, allocation + 1)
    try:
        operation()
    except (MemoryError, RuntimeError):  # the latter of a lock
        return True
    finally:
        memory.remove_mem_hooks()
    return False


def made() -> ClusterState:
    state = ClusterState()
    for name in "abc":
        state.set_node(node(name))
    state.add_pod(pod("there", on="a"))
    state.assume_pod(pod("assumed", on="b"))
    state.add_pod(pod("ghostly", on="ghost"))
    return state


OPERATIONS: dict[str, Operation] = {
    "new node": lambda state: state.set_node(node("new", labels={"disk": "ssd"})),
    "other node": lambda state: state.set_node(node("a", zone="z")),
    "node goes": lambda state: state.remove_node("c"),
    "remove": lambda state: state.remove_pod(pod("there", on="a")),
    "last pod of a ghost goes": lambda state: state.remove_pod(pod("ghostly", on="ghost")),
    "forget": lambda state: state.forget_pod(pod("assumed", on="b")),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_an_operation_without_memory_changes_nothing(name: str, nested: bool) -> None:
    failed = allocation = unharmed = 0
    while unharmed < 10:
        state = made()
        mark = state.begin() if nested else None
        before = dump(state)
        if without(allocation, partial(OPERATIONS[name], state)):
            failed, unharmed = failed + 1, 0
            assert dump(state, before) == before, allocation
            OPERATIONS[name](state)
        else:
            unharmed += 1
        if mark is not None:
            state.rollback(mark)
        allocation += 1
    assert failed


def test_an_action_is_recorded_as_a_whole_or_not_at_all() -> None:
    outcomes = set()
    for allocation in range(20):
        journal, table = Journal(), dict[str, Any]()
        mark = journal.begin()
        journal.put(table, "first", 1)
        outcomes.add(without(allocation, partial(journal.put, table, "second", 2)))
        journal.rollback(mark)
        assert (table, journal.depth) == ({}, 0)
    assert outcomes == {False, True}
