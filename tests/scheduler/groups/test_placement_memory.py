"""What is remembered of groups in placements, and what makes it void."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.make import node, pod
from tests.doors.engine import PlacementMemory, placement_memory
from tests.scheduler.groups.gang_kit import TOPOLOGY, store_of, world

from moorage import Scheduler
from moorage.framework import Placement

ROWS = np.zeros(1, dtype=np.int32)


def remembering() -> tuple[Scheduler, PlacementMemory, list[Placement]]:
    """A memory that knows a result in each of two placements."""
    scheduler = world([node("a"), node("b")], feature_gates=TOPOLOGY)
    memory = PlacementMemory(scheduler.handle)
    placements = [Placement(name, np.array([row], dtype=np.int32)) for row, name in enumerate("ab")]
    scheduler.cache.state.view.refresh()
    noted(memory.chain(placements, "kind", 0))
    return scheduler, memory, placements


def noted(chain: placement_memory.Chain) -> list[int]:
    """The placements that were not known."""
    found = []
    for at in chain.unknown():
        found.append(at)
        chain.note(at, ROWS, None, 0)
    return found


def test_nothing_is_forgotten_without_a_change() -> None:
    _, memory, placements = remembering()
    assert noted(memory.chain(placements, "kind", 0)) == []


def test_another_kind_or_start_is_not_known() -> None:
    _, memory, placements = remembering()
    assert noted(memory.chain(placements, "other", 0)) == [0, 1]
    assert noted(memory.chain(placements, "kind", 1)) == [0, 1]


def test_a_row_that_changes_makes_the_results_of_its_placement_void() -> None:
    scheduler, memory, placements = remembering()
    chain = memory.chain(placements, "kind", 0)
    assert chain.scores("plugin", [5, 7].__getitem__).tolist() == [5, 7]
    scheduler.cache.add_pod(pod("p", node_name="b"))
    assert noted(memory.chain(placements, "kind", 0)) == [1]
    assert chain.scores("plugin", {1: 9}.__getitem__).tolist() == [5, 9]


def test_a_change_that_is_undone_makes_nothing_void() -> None:
    scheduler, memory, placements = remembering()
    with scheduler.cache.transaction():
        scheduler.cache.add_pod(pod("p", node_name="b"))
    memory.undone(())
    assert noted(memory.chain(placements, "kind", 0)) == []


def test_results_of_groups_below_are_void_when_what_they_counted_is_undone() -> None:
    scheduler, memory, placements = remembering()
    with scheduler.cache.transaction():
        scheduler.cache.add_pod(pod("p", node_name="b"))
        assert noted(memory.chain(placements, "kind", 0)) == [1]
    memory.undone([1, -1])
    assert noted(memory.chain(placements, "kind", 0)) == [1]


def test_a_search_that_begins_elsewhere_makes_later_results_void() -> None:
    _, memory, placements = remembering()
    chain = memory.chain(placements, "kind", 0)
    chain.note(0, ROWS, None, 1)
    assert chain.starts == [0, 1, 0]
    assert noted(chain) == [1]


def test_a_node_that_is_new_makes_all_results_void() -> None:
    scheduler, memory, placements = remembering()
    store_of(scheduler).create(node("c"))
    scheduler.sync()
    scheduler.cache.state.view.refresh()
    assert noted(memory.chain(placements, "kind", 0)) == [0, 1]


def test_so_many_kinds_and_placements_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    _, memory, placements = remembering()
    monkeypatch.setattr(placement_memory, "MOST_CHAINS", 1)
    memory.chain(placements, "other", 0)
    assert noted(memory.chain(placements, "kind", 0)) == [0, 1]
    monkeypatch.setattr(placement_memory, "MOST_PLACEMENTS", 1)
    memory.chain([placements[0]], "kind", 0)
    assert noted(memory.chain(placements, "kind", 0)) == [0, 1]
