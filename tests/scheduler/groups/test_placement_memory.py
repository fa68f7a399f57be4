"""What is remembered of groups in placements, and what makes it void."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.doors.engine import MOST_CHAINS, MOST_PLACEMENTS, PlacementMemory
from tests.make import node, pod
from tests.scheduler.groups.gang_kit import TOPOLOGY, world

from moorage import Scheduler
from moorage.engine.framework import Placement

ROWS = np.zeros(1, dtype=np.int32)


def remembering() -> tuple[Scheduler, PlacementMemory, list[Placement]]:
    """A memory that knows a result in each of two placements."""
    scheduler = world([node("a"), node("b")], feature_gates=TOPOLOGY)
    memory = PlacementMemory(scheduler.handle)
    placements = [Placement(name, np.array([row], dtype=np.int32)) for row, name in enumerate("ab")]
    scheduler.cache.state.view.refresh()
    noted(memory.chain(placements, "kind", 0))
    return scheduler, memory, placements


def noted(chain: Any) -> list[int]:
    """The placements that were not known."""
    found = []
    for at in chain.unknown():
        found.append(at)
        chain.note(at, ROWS, None, 0)
    return found


def test_results_of_groups_below_are_void_when_what_they_counted_is_undone() -> None:
    scheduler, memory, placements = remembering()
    with scheduler.cache.transaction():
        scheduler.cache.add_pod(pod("p", node_name="b"))
        assert noted(memory.chain(placements, "kind", 0)) == [1]
    memory.undone([1, -1])
    assert noted(memory.chain(placements, "kind", 0)) == [1]


def test_so_many_kinds_and_placements_are_known() -> None:
    _, memory, placements = remembering()
    for at in range(MOST_CHAINS):
        assert noted(memory.chain(placements, "kind", 0)) == []
        memory.chain(placements, f"other-{at}", 0)
    assert noted(memory.chain(placements, "kind", 0)) == [0, 1]
    for at in range(MOST_PLACEMENTS):
        memory.chain([Placement(f"p{at}", np.array([0], dtype=np.int32))], "kind", 0)
    assert noted(memory.chain(placements, "kind", 0)) == [0, 1]
