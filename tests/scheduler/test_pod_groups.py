"""Pod groups: all that fit, if they make up the minimum; else nothing has happened."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from tests.core.make import node, pod

from moorage import Cluster, Scheduler
from moorage.objects.pod import Pod
from moorage.objects.pod_group import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from moorage.scheduler.pod_groups import GroupResult, place_group


def gang(minimum: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(minimum))
    return PodGroup(spec=PodGroupSpec(scheduling_policy=policy))


def members(count: int, cpu: str = "1", first: int = 0) -> list[Pod]:
    return [pod(f"m{at}", requests={"cpu": cpu}) for at in range(first, first + count)]


def over(*cpus: str, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=[node(f"n{at}", cpu=cpu) for at, cpu in enumerate(cpus)]), **settings)


def place(scheduler: Scheduler, group: PodGroup | None, pods: list[Pod], **rest: Any) -> GroupResult:
    return place_group(scheduler, scheduler.rotation.engines[0], group, pods, **rest)


def test_a_gang_that_fits_is_assumed() -> None:
    scheduler = over("2", "2")
    result = place(scheduler, gang(3), members(3))
    assert result.succeeded
    assert not result.failures
    assert np.all(result.rows >= 0)
    assert all(map(scheduler.cache.is_assumed_pod, members(3)))


def test_a_gang_without_enough_room_leaves_nothing() -> None:
    scheduler = over("2")
    result = place(scheduler, gang(3), members(3))
    assert not result.succeeded
    assert result.rows.tolist() == [-1, -1, -1]
    assert not any(map(scheduler.cache.state.has_pod, members(3)))
    assert result.failures[0].message == (
        "pod group is unschedulable: 2 of 3 pods fit, 3 are needed; "
        "default/m2: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert result.failures[2].message == "0/1 nodes are available: 1 Insufficient cpu."
    assert scheduler.table.requested["cpu"].tolist() == [0]


def test_more_members_than_the_minimum_may_fail() -> None:
    result = place(over("2"), gang(2), members(3))
    assert result.succeeded
    assert result.rows.tolist() == [0, 0, -1]
    assert list(result.failures) == [2]


def test_members_with_a_node_count() -> None:
    scheduler = over("3")
    scheduler.schedule(members(2))
    assert not place(scheduler, gang(3), members(2, first=2)[:0], scheduled=members(2)).succeeded
    result = place(scheduler, gang(3), members(2, first=2), scheduled=members(2))
    assert result.succeeded
    assert result.rows.tolist() == [0, -1]


def test_a_group_without_a_minimum_takes_what_fits() -> None:
    basic = PodGroup(spec=PodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy()))
    for group in (None, basic):
        result = place(over("2"), group, members(3))
        assert result.succeeded
        assert result.rows.tolist() == [0, 0, -1]
    assert not place(over("1"), None, members(1, "2")).succeeded


def test_a_failed_gang_takes_no_nomination_away() -> None:
    scheduler = over("2", "1")
    first = members(3)[0]
    nominated = replace(first, status=replace(first.status, nominated_node_name="n0"))
    scheduler.handle.nominator.put(nominated, "n0")
    result = place(scheduler, gang(4), [nominated, *members(4)[1:]])
    assert not result.succeeded
    assert scheduler.handle.nominator.nominated_pods_for_node("n0") == [nominated]
    assert place(scheduler, gang(3), [nominated, *members(3)[1:]]).succeeded
    assert not scheduler.handle.nominator
