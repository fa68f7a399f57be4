"""The room on the nodes tells which units stay, as placing the group anew for each of them does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.make import ZONE, node, pod, port
from tests.preemption.world import budget, victim
from tests.scheduler.groups.gang_kit import GATES, composite, gang, members, nodes, on_nodes, world

from moorage._core.preempt.lower_units import LowerUnits
from moorage.objects import LabelSelector, Object
from moorage.objects.model.pod import Affinity, PodAffinity, PodAffinityTerm
from moorage.preemption.eviction_units import EvictionUnits
from moorage.scheduler import Scheduler
from moorage.scheduler.groups import group_preemption

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
    decide_tree = group_preemption.decide_tree

    def counted(members: Any, commit: bool) -> Any:
        nonlocal count
        count += 1
        return decide_tree(members, commit=commit)

    monkeypatch.setattr(group_preemption, "decide_tree", counted)
    one = world(*objects, feature_gates=PREEMPTS)
    one.run()
    return count, one


@pytest.mark.parametrize(("fields", "tries"), [({}, 0), ({"labels": LABELS}, 0), ({"ports": [port(80)]}, 5)])
def test_the_group_is_not_placed_where_the_room_tells(
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


def units_on(used: list[list[int]], priority: int = 9) -> tuple[Scheduler, LowerUnits]:
    """A scheduler whose nodes have 4 CPUs and pods of some sizes; the units of priority below 9."""
    pods = [
        victim(f"v{at}-{each}", f"n{at}", cpu=cpu)
        for at, there in enumerate(used)
        for each, cpu in enumerate(there)
    ]
    one = world([node(f"n{at}", cpu=4, pods=9) for at in range(len(used))], pods, feature_gates=PREEMPTS)
    return one, LowerUnits(one.cache.state, priority, EvictionUnits(one.handle, for_group=True))


def test_indexes_of_units_are_checked() -> None:
    one, units = units_on([[1, 1]])
    batch = one.context.batch_of([pod("q", requests={"cpu": 1})])
    search = one.context.engine_of(batch.pod(0)).search
    for at in (-1, 2):
        with pytest.raises(IndexError, match="no unit"):
            units.pods(at)
        with pytest.raises(IndexError, match="no unit"):
            units.to_leave(search, batch, 1, [at], bool)


SIZES = st.lists(st.lists(st.integers(1, 2), max_size=2), min_size=1, max_size=3)


@given(SIZES, st.integers(1, 4), st.data())
def test_a_unit_leaves_if_the_rest_has_no_room_with_it(
    used: list[list[int]], need: int, data: st.DataObject
) -> None:
    """The twin counts the room of all nodes anew for each unit."""
    one, units = units_on(used)
    pods, wanted = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    protected = sorted(data.draw(st.sets(st.integers(0, len(units) - 1)))) if len(units) else []
    batch = one.context.batch_of([pod("q", requests={"cpu": need})])
    state, asked = one.cache.state, list[int]()
    before = state.table.requested["cpu"].tolist()

    def succeeds(room: int) -> bool:
        asked.append(room)
        return room >= min(wanted, pods)

    search = one.context.engine_of(batch.pod(0)).search
    found = units.to_leave(search, batch, pods, protected, succeeds)
    assert state.table.requested["cpu"].tolist() == before
    assert len(asked) == len(set(asked))
    assert max(asked) <= pods
    owners = [int(units.pods(at)[0].spec.node_name[1:]) for at in range(len(units))]
    sizes = [int(units.pods(at)[0].name.split("-")[1]) for at in range(len(units))]
    cpus, left = [used[on][each] for on, each in zip(owners, sizes, strict=True)], [4] * len(used)

    def fits() -> bool:
        return sum(min(pods, free // need) for free in left) >= min(wanted, pods)

    if not fits():
        assert found == (None, len(used), len(used))
        return
    leaving = []
    for at in (*protected, *(at for at in range(len(units)) if at not in protected)):
        left[owners[at]] -= cpus[at]
        if not fits():
            left[owners[at]] += cpus[at]
            leaving.append(at)
    assert found == (units.most_important_first(leaving), len(used), len(used))


def test_an_error_of_the_caller_leaves_all_as_it_was() -> None:
    one, units = units_on([[1, 2], [1]])
    batch = one.context.batch_of([pod("q", requests={"cpu": 2})])
    search = one.context.engine_of(batch.pod(0)).search
    before = one.cache.state.table.requested["cpu"].tolist()
    with pytest.raises(ZeroDivisionError):
        units.to_leave(search, batch, 3, [], lambda room: 1 // (room - 2) > 0)
    assert one.cache.state.table.requested["cpu"].tolist() == before
