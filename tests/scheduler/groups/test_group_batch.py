"""Groups placed by one call of the core: each as in a cycle of its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import group_batch
from tests.make import node, pod
from tests.scheduler.groups.group_world import basic, gang, made_up, members, over, place

from moorage import Cluster, Scheduler
from moorage.kube import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    ResourceRequirements,
)

Groups = list[tuple[PodGroup, list[Pod]]]


def place_in_batch(scheduler: Scheduler, groups: Groups) -> tuple[list[list[int]], int]:
    """The rows of the pods of each group, and the number of groups that had cycles of their own."""
    batch = group_batch.GroupBatch(
        scheduler.context, [group for group, _ in groups], [pods for _, pods in groups], [[] for _ in groups]
    )
    rows: list[list[int]] = []
    alone = 0
    while len(rows) < len(groups):
        first = len(rows)
        end = batch.place(first)
        for at in range(first, end):
            rows.append(batch.result.rows[batch.begin(at) : batch.begin(at + 1)].tolist())
        if end == first:
            rows.append(place(scheduler, *groups[first]).rows.tolist())
            alone += 1
    return rows, alone


def place_each(scheduler: Scheduler, groups: Groups) -> list[list[int]]:
    return [place(scheduler, group, pods).rows.tolist() for group, pods in groups]


def leftovers(scheduler: Scheduler) -> list[Any]:
    """What later cycles read."""
    scheduler.cache.state.view.refresh()
    rows = range(scheduler.table.used)
    view, table = scheduler.cache.state.view, scheduler.table
    pods = [sorted(pod.name for pod in scheduler.cache.state.pods_of(row)) for row in rows]
    return [scheduler.context.rotation.start, [view.images_of(row) for row in rows], pods, table.used]


def with_images_of(node: Node, other: Node) -> Node:
    return replace(node, status=replace(node.status, images=other.status.images))


@given(
    world=st.integers(0, 2000),
    nodes=st.integers(1, 9),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=6),
    tie_break=st.sampled_from(["first", "go-heap", "random"]),
    changed=st.booleans(),
)
def test_like_a_cycle_for_each_group(
    world: int, nodes: int, sizes: list[tuple[int, int]], tie_break: str, changed: bool
) -> None:
    outcomes = []
    for ways in (place_each, lambda one, groups: place_in_batch(one, groups)[0]):
        scheduler, pods = made_up(world, nodes, sum(size for size, _ in sizes), tie_break=tie_break)
        for engine in scheduler.engines.values():
            engine.runs_post_filter = False
        there = [one for one in scheduler.table.objects if one is not None]
        if changed:  # rows whose image counts are out of date
            scheduler.cache.state.view.refresh()
            scheduler.cache.state.set_node(with_images_of(there[0], there[-1]))
        groups: Groups = []
        for size, minimum in sizes:
            groups.append((gang(minimum) if minimum else basic(), pods[:size]))
            pods = pods[size:]
        outcomes.append([ways(scheduler, groups), *leftovers(scheduler)])
    assert outcomes[0] == outcomes[1]


def groups_of(*sizes: int, cpu: str = "1") -> Groups:
    out: Groups = []
    for size in sizes:
        first = sum(len(pods) for _, pods in out)
        out.append((gang(size), members(size, cpu, first)))
    return out


def test_one_call_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_in_batch(over("8", "8"), groups_of(3, 2, 4))[1] == 0
    monkeypatch.setattr(group_batch, "MOST_PODS", 3)
    assert place_in_batch(over("8", "8"), groups_of(3, 2, 4))[1] == 0


def test_groups_after_one_that_does_not_fit() -> None:
    scheduler = over("4", "4")
    rows, alone = place_in_batch(scheduler, groups_of(3, 6, 2, 2, 1, 1))
    assert [sum(row >= 0 for row in some) for some in rows] == [3, 0, 2, 2, 1, 0]
    assert alone == 2


def test_groups_whose_pods_have_terms() -> None:
    apart = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector({"a": "b"}))
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(apart,)))
    pods = [pod(f"t{at}", labels={"a": "b"}, affinity=affinity) for at in range(3)]
    groups: Groups = [(gang(2), pods[:2]), (gang(1), pods[2:]), *groups_of(2)]
    rows, alone = place_in_batch(over("8", "8", "8"), groups)
    assert alone == 0
    assert rows == place_each(over("8", "8", "8"), groups)


def test_pods_of_another_priority_have_a_cycle_of_their_own() -> None:
    pods = [replace(one, spec=replace(one.spec, priority=1)) for one in members(2)]
    assert place_in_batch(over("8"), [(gang(2), pods)]) == ([[-1, -1]], 1)


def test_a_failure_outside_of_groups_is_not_remembered() -> None:
    scheduler = over("2")
    alone = members(1, "3", 9)
    assert scheduler.schedule_pods(alone).failures
    assert place_in_batch(scheduler, groups_of(1, 1, cpu="3")) == ([[-1], [-1]], 2)


def test_too_few_pods_have_a_cycle_of_their_own() -> None:
    rows, alone = place_in_batch(over("8"), [(gang(3), members(2)), *groups_of(1)])
    assert (rows, alone) == ([[-1, -1], [0]], 1)


@pytest.mark.parametrize("ways", [place_each, lambda one, groups: place_in_batch(one, groups)[0]])
def test_each_group_has_a_snapshot_of_image_counts(ways: Any) -> None:
    one, two = (["one:1"], 900 << 20), (["two:1"], 1350 << 20)
    scarce = node("c", cpu="1m", images=[one])
    scheduler = Scheduler(
        Cluster(nodes=[node("a", cpu=99, images=[one]), node("b", cpu=99, images=[two]), scarce])
    )
    scheduler.cache.state.view.refresh()
    # Image one is on fewer nodes now, which the row of node a shows once it has changed.
    scheduler.cache.state.set_node(replace(scarce, status=replace(scarce.status, images=())))
    containers = tuple(Container(name=image[:3], image=image) for image in ("one:1", "two:1"))
    containers = (
        replace(containers[0], resources=ResourceRequirements(requests={"cpu": "2m"})),
        containers[1],
    )
    pods = [pod(f"p{at}", containers=containers) for at in range(6)]
    a, b, _ = (scheduler.table.find_row(name) for name in "abc")
    groups: Groups = [(gang(2), pods[at : at + 2]) for at in (0, 2, 4)]
    assert ways(scheduler, groups) == [[a, a], [b, b], [b, b]]
