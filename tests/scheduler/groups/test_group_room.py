"""The room on the nodes tells which units stay, as placing the group anew for each of them does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.make import ZONE, node, pod, port
from tests.preemption.world import budget, victim
from tests.scheduler.groups.gang_kit import GATES, composite, gang, members, nodes, on_nodes, world

from moorage._core.decide.copies import Room
from moorage.objects.model.meta import LabelSelector, Object
from moorage.objects.model.pod import Affinity, PodAffinity, PodAffinityTerm
from moorage.scheduler import Scheduler
from moorage.scheduler.groups import group_preemption
from moorage.scheduler.groups.group_preemption import _Search

LABELS = {"app": "x"}
PREEMPTS = GATES | {"WorkloadAwarePreemption": True}


def decided(objects: list[Any], **options: Any) -> tuple[object, ...]:
    one = world(*objects, feature_gates=PREEMPTS, **options)
    result = one.run()
    failures = {key: failure.message for key, failure in result.unschedulable.items()}
    return result.evicted, result.placements, failures, on_nodes(one), one.context.rotation.start


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes that pods of priority 0 to 3 fill, and a tree of groups of priority 2 or 10 with equal pods."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    there: list[Object] = []
    for at, size in enumerate(sizes):
        free = size
        while free and draw(st.integers(0, 4)):
            cpu = draw(st.integers(1, free))
            free -= cpu
            labels = draw(st.sampled_from(({}, LABELS)))
            priority = draw(st.integers(0, 3))
            there.append(victim(f"v{len(there)}", "abcde"[at], cpu=cpu, priority=priority, labels=labels))
    priority, cpu = draw(st.sampled_from((2, 10, 10))), draw(st.integers(1, 3))
    groups: list[Object] = [composite("c", draw(st.integers(0, 3)), priority=priority)]
    for at in range(draw(st.integers(1, 3))):
        own, parent = f"g{at}", "c"
        if draw(st.booleans()):
            parent = f"m{at}"
            groups.append(composite(parent, draw(st.integers(0, 1)), "c", priority=priority))
        n = draw(st.integers(1, 3))
        groups.append(gang(own, draw(st.integers(0, n)), parent, priority=priority))
        groups += members(own, n, cpu=cpu, priority=priority)
    return [nodes(*sizes), there, draw(st.sampled_from(([], [budget(1, LABELS)]))), groups]


@settings(deadline=None, max_examples=60)
@given(clusters(), st.sampled_from(("first", "go-heap")))
def test_the_room_decides_as_placing_anew_does(objects: list[Any], tie_break: str) -> None:
    by_room = decided(objects, tie_break=tie_break)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_preemption, "decides_by_room", lambda members: False)
        assert by_room == decided(objects, tie_break=tie_break)


def attempts(monkeypatch: pytest.MonkeyPatch, *objects: Any) -> tuple[int, Scheduler]:
    """How often the group was placed to find its victims."""
    count = 0
    does_not_fit = _Search._does_not_fit

    def counted(search: _Search) -> str:
        nonlocal count
        count += 1
        return does_not_fit(search)

    monkeypatch.setattr(_Search, "_does_not_fit", counted)
    one = world(*objects, feature_gates=PREEMPTS)
    one.run()
    return count, one


@pytest.mark.parametrize(("fields", "tries"), [({}, 1), ({"labels": LABELS}, 1), ({"ports": [port(80)]}, 5)])
def test_the_group_is_placed_once_for_all_units(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], tries: int
) -> None:
    """Host ports need the search: two pods with one do not fit on a node."""
    there = [victim(f"v{at}", cpu=1) for at in range(4)]
    pods = members("g", 1, cpu=1, priority=9, **fields)
    count, one = attempts(monkeypatch, nodes(4), there, gang("g", 1, priority=9), pods)
    assert on_nodes(one)["g-0"] == "a"
    assert count == tries


def test_terms_of_pods_that_leave_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A victim rejects the group on all nodes of its zone: it leaves, and the others stay."""
    term = PodAffinityTerm(LabelSelector(match_labels=LABELS), topology_key=ZONE)
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    there = [victim("v", "a", cpu=1, affinity=apart), victim("w", "b", cpu=1)]
    zones = [node("a", zone="z", cpu=4), node("b", zone="z", cpu=4)]
    pods = members("g", 1, cpu=1, priority=9, labels=LABELS)
    count, one = attempts(monkeypatch, zones, there, gang("g", 1, priority=9), pods)
    assert sorted(on_nodes(one)) == ["g-0", "w"]
    assert count == 3


def test_rows_that_are_not_there() -> None:
    one = world(nodes(4), pod("p", requests={"cpu": 1}))
    batch = one.context.batch_of([pod("q", requests={"cpu": 1})])
    room = Room(one.context.engine_of(batch.pod(0)).search, batch, 9)
    assert (room.total, room.nodes, room.searched) == (4, 1, 1)
    for row in (-1, 1):
        with pytest.raises(IndexError, match="no row"):
            room.recount((row,))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 3))
def test_the_room_is_that_of_the_free_resources(used: list[int], most: int, need: int) -> None:
    one = world([node(f"n{at}", cpu=4, pods=9) for at in range(len(used))])
    batch = one.context.batch_of([pod("q", requests={"cpu": need})])
    engine, state = one.context.engine_of(batch.pod(0)), one.cache.state
    room = Room(engine.search, batch, most)
    for at, cpu in enumerate(used):
        if cpu:
            state.put(pod(f"p{at}", requests={"cpu": cpu}), at)
    found = [min(most, (4 - cpu) // need) for cpu in used]
    assert room.recount(tuple(range(len(used)))) == sum(found)
    assert room.nodes == sum(map(bool, found))
    assert state.table.requested["cpu"].tolist() == [1000 * cpu for cpu in used]
