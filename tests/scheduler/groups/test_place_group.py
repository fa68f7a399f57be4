"""Pod groups: all that fit, if they make up the minimum; else nothing has happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import node
from tests.scheduler.groups.group_world import basic, gang, made_up, members, over, place, twin
from tests.scheduler.make import scheduler_with

from moorage import Cluster, Scheduler, default_profile, synthetic
from moorage.engine.framework import Code, CycleState, PermitPlugin, ReservePlugin, Status
from moorage.engine.scheduler import Profile
from moorage.errors import CacheError, MoorageError
from moorage.kube import Pod


def nominated(scheduler: Scheduler, pods: list[Pod], *nodes: str) -> list[Pod]:
    """The pods, with the first of them nominated to nodes."""
    changed = [
        replace(one, status=replace(one.status, nominated_node_name=node))
        for one, node in zip(pods, nodes, strict=False)
    ]
    for one in changed:
        scheduler.handle.nominator.put(one, one.status.nominated_node_name)
    return [*changed, *pods[len(nodes) :]]


def test_late_members_join_those_with_a_node() -> None:
    scheduler = over("3")
    scheduler.schedule_pods(members(2))
    assert not place(scheduler, gang(4), members(2, first=2), scheduled=members(2)).succeeded
    assert not place(scheduler, gang(2), [], scheduled=members(2)).succeeded
    result = place(scheduler, gang(3), members(2, first=2), scheduled=members(2))
    assert result.succeeded
    assert result.rows.tolist() == [0, -1]


def test_a_failed_gang_takes_no_nomination_away() -> None:
    scheduler = over("2", "1")
    pods = nominated(scheduler, members(4), "n0")
    assert not place(scheduler, gang(4), pods).succeeded
    assert scheduler.handle.nominator.nominated_pods_for_node("n0") == pods[:1]
    assert place(scheduler, gang(3), pods[:3]).succeeded
    assert not scheduler.handle.nominator


def test_a_failed_gang_nominates_its_pods_again_the_last_one_first() -> None:
    scheduler = over("3")
    pods = nominated(scheduler, members(4), "n0", "n0")
    assert not place(scheduler, gang(4), pods).succeeded
    assert scheduler.handle.nominator.nominated_pods_for_node("n0") == [pods[1], pods[0]]


def test_what_failed_in_a_group_is_told_anew_outside() -> None:
    """Outside of a group PostFilter has its say, too."""
    scheduler = over("1")
    large = members(4, "3")
    assert not place(scheduler, gang(2), large[:2]).succeeded
    alone = scheduler.schedule_pods(large[2:])
    assert "preemption: " in alone.failures[0].message
    assert "preemption: " in alone.failures[1].message
    assert place(scheduler, basic(), members(1)).succeeded


# ---- against single cycles ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**64),
    nodes=st.sampled_from([1, 4, 30, 120]),
    tie_break=st.sampled_from(["first", "random", "go-heap"]),
    share=st.integers(1, 24),
    nested=st.booleans(),
)
def test_a_group_is_placed_as_by_single_cycles_or_not_at_all(
    seed: int, nodes: int, tie_break: str, share: int, nested: bool
) -> None:
    """And whatever came of it, what comes after is decided as by a scheduler that never tried."""
    setting: dict[str, Any] = {"tie_break": tie_break, "seed": 7, "percentage_of_nodes_to_score": 30}
    one, pods = made_up(seed, nodes, 60, **setting)
    slow, untouched = (made_up(seed, nodes, 60, **setting)[0] for _ in range(2))
    before, group, after = pods[:10], pods[10:34], pods[34:]
    for each in (one, slow, untouched):
        each.schedule_pods(before)
    if nested:
        with one.cache.transaction() as transaction:
            result = place(one, gang(share), group)
            transaction.commit()
    else:
        result = place(one, gang(share), group)
    rows, fits = twin(slow, gang(share), group)
    assert result.succeeded == fits
    assert result.rows.tolist() == rows.tolist()
    assert sorted(result.failures) == np.flatnonzero(result.rows < 0).tolist()
    for engine in slow.engines.values():
        engine.runs_post_filter = True
    if not fits:
        untouched.context.rotation.start = slow.context.rotation.start  # a group that fails advances it, too
    other = slow if fits else untouched
    told, expected = one.schedule_pods(after), other.schedule_pods(after)
    assert told.rows.tolist() == expected.rows.tolist()
    assert one.context.rotation.start == other.context.rotation.start
    assert {at: f.message for at, f in told.failures.items()} == {
        at: f.message for at, f in expected.failures.items()
    }


# ---- plugins outside the core ------------------------------------------------------------------------------


class Journaling(ReservePlugin, PermitPlugin):
    """Notes what it is asked; rejects the pods that it is told to."""

    name = "Journaling"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.rejects: set[str] = set()
        self.waits: set[str] = set()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.asked.append(f"reserve {pod.name}")
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.asked.append(f"unreserve {pod.name}")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if pod.name in self.rejects:
            return Status(Code.UNSCHEDULABLE, ("not this one",)), 0.0
        return (Status(Code.WAIT), 10.0) if pod.name in self.waits else (None, 0.0)


def test_a_group_reserves_in_thought_and_then_for_good() -> None:
    plugin = Journaling()
    scheduler = scheduler_with(plugin, pods=members(3))
    plugin.rejects = {"m1"}
    result = place(scheduler, gang(2), members(3))
    assert result.succeeded
    assert sorted(result.started) == [0, 2]
    assert result.failures[1].message == "0/1 nodes are available: 1 not this one."
    assert result.rows[1] == -1
    thought = [*(f"reserve m{at}" for at in range(3)), *(f"unreserve m{at}" for at in (2, 1, 0))]
    assert plugin.asked == [*thought, "reserve m0", "reserve m1", "unreserve m1", "reserve m2"]
    assert scheduler.cache.state.assumed_pods() == ["m0", "m2"]


def test_pods_that_permit_has_wait_are_placed_with_the_others() -> None:
    plugin = Journaling()
    scheduler = scheduler_with(plugin, pods=members(2))
    plugin.waits = {"m0", "m1"}
    result = place(scheduler, gang(2), members(2))
    assert result.succeeded
    assert all(started.waiting is not None for started in result.started.values())


def test_an_error_fails_the_whole_group() -> None:
    plugin = Journaling()
    scheduler = scheduler_with(plugin, pods=members(3))

    def fail(state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status(Code.ERROR, ("boom",)) if pod.name == "m1" else None

    plugin.reserve = fail  # type: ignore[method-assign]
    result = place(scheduler, gang(1), members(3))
    assert not result.succeeded
    assert "boom" in result.failures[1].error
    assert result.failures[2].error.startswith("failed to schedule other pod from a pod group: ")
    assert not scheduler.cache.state.assumed_pods()


def test_a_pod_that_reserve_rejects_is_nominated_again_for_those_after_it() -> None:
    """There is room for one pod: the nominated one, though it is rejected."""
    plugin = Journaling()
    scheduler = scheduler_with(plugin, nodes=[node("a", cpu=1)], pods=members(2))
    pods = nominated(scheduler, members(2), "a")

    def reject(state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("not this one",)) if pod.name == "m0" else None

    plugin.reserve = reject  # type: ignore[method-assign]
    result = place(scheduler, gang(1), pods)
    assert result.failures[0].message == "0/1 nodes are available: 1 not this one."
    assert result.failures[1].message == "0/1 nodes are available: 1 Insufficient cpu."


# ---- Scheduler.schedule_workload ---------------------------------------------------------------------------


def test_a_workload_is_placed_from_what_informers_know() -> None:
    pods = members(3)
    cluster = Cluster(nodes=over("2").cache.state.table.objects, pods=pods[::-1])  # type: ignore[arg-type]
    scheduler = Scheduler(cluster)
    result = scheduler.schedule_workload(gang(2))
    assert result.rows.tolist() == [0, 0, -1]
    assert scheduler.cache.state.assumed_pods() == ["m0", "m1"]
    with pytest.raises(CacheError, match="m0 is in the cache"):
        scheduler.schedule_workload(gang(2), pods[:1])
    assert scheduler.schedule_workload(gang(2)).rows.tolist() == [-1]


def test_a_workload_in_a_transaction_leaves_nothing() -> None:
    scheduler = Scheduler(synthetic(nodes=20, pods=0))
    with scheduler.cache.transaction():
        assert np.all(scheduler.schedule_workload(gang(30), members(30)).rows >= 0)
        assert np.all(scheduler.schedule_workload(gang(31), members(1, first=30)).rows < 0)
    assert not scheduler.cache.state.assumed_pods()
    assert scheduler.context.rotation.start == 0


def test_a_workload_without_pods() -> None:
    assert len(over("1").schedule_workload(gang(1)).rows) == 0


def test_a_workload_has_one_scheduler() -> None:
    one, other = members(2)
    other = replace(other, spec=replace(other.spec, scheduler_name="other"))
    profiles = [
        Profile(default_profile().plugins, scheduler_name=name) for name in ("default-scheduler", "other")
    ]
    scheduler = over("2", profiles=profiles)
    with pytest.raises(MoorageError, match="other"):
        scheduler.schedule_workload(gang(1), [one, other])
    assert not scheduler.cache.state.assumed_pods()
