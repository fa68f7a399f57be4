"""Pod groups that are bound to a topology: placements and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import schedule_one
from tests.extenders.extended import configured, of, only
from tests.extenders.extender_server import ExtenderServer
from tests.make import pod
from tests.scheduler.groups.gang_kit import TOPOLOGY
from tests.scheduler.groups.group_world import RACK, gang, made_up, members, place, racks

from moorage import Cluster, Profile, Scheduler, default_profile
from moorage.engine.framework import Assignments, Placement, PlacementScorePlugin
from moorage.kube import PodGroup


def bound_to_racks(*cpus: str, size: int = 2, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=racks(*cpus, size=size)), feature_gates=TOPOLOGY, **settings)


def names(scheduler: Scheduler, rows: Sequence[int]) -> list[str]:
    return ["" if row < 0 else scheduler.table.row_name(row) for row in rows]


def test_members_with_a_node_leave_their_rack_alone() -> None:
    scheduler = bound_to_racks("2", "4", "4")
    first = place(scheduler, gang(2, RACK), members(2))
    assert {name[:2] for name in names(scheduler, first.rows.tolist())} == {"n0"}
    there, late = members(2), members(3, first=2)
    result = place(scheduler, gang(2, RACK), late, scheduled=there)
    assert [name[:2] for name in names(scheduler, result.rows.tolist())] == ["n0", "n0", ""]


def test_members_in_two_racks_are_an_error() -> None:
    scheduler = bound_to_racks("1", "1", size=1)
    scheduler.schedule_pods([pod(one.name, requests={"cpu": "1"}) for one in members(2)])  # which do not wait
    result = place(scheduler, gang(1, RACK), members(1, first=2), scheduled=members(2))
    assert result.message == (
        "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r0, r1"
    )


def test_the_rack_that_takes_more_pods_is_preferred() -> None:
    profile = Profile(default_profile(TOPOLOGY).plugins, placement_weights={"PodGroupPodsCount": 100})
    scheduler = Scheduler(Cluster(nodes=racks("1", "2")), profile=profile)
    result = place(scheduler, gang(2, RACK), members(4))
    assert {name[:2] for name in names(scheduler, result.rows.tolist())} == {"n1"}


class Likes(PlacementScorePlugin):
    """Scores placements as it is told to."""

    name = "Likes"
    in_core = True

    def __init__(self, scores: dict[str, int]) -> None:
        super().__init__()
        self.scores = scores
        self.seen: list[str] = []

    def score_placement(self, group: PodGroup, assignments: Assignments) -> int:
        self.seen.append(assignments.placement.name)
        return self.scores[assignments.placement.name]


def liking(
    scores: dict[str, int], *cpus: str, weight: int = 1000, **settings: Any
) -> tuple[Scheduler, Likes]:
    plugin = Likes(scores)
    plugins = (*default_profile(TOPOLOGY).plugins, plugin)
    profile = Profile(plugins, placement_weights={"Likes": 1000})
    return Scheduler(Cluster(nodes=racks(*cpus)), profile=profile, feature_gates=TOPOLOGY, **settings), plugin


def test_scores_are_weighted_and_the_best_wins() -> None:
    scheduler, plugin = liking({"r0": 1, "r1": 9, "r2": 5}, "4", "4", "4")
    result = place(scheduler, gang(2, RACK), members(2))
    assert plugin.seen == ["r0", "r1", "r2"]
    assert {name[:2] for name in names(scheduler, result.rows.tolist())} == {"n1"}


def test_a_score_out_of_range_fails_the_group() -> None:
    scheduler, _ = liking({"r0": 1, "r1": 101}, "4", "4")
    result = place(scheduler, gang(2, RACK), members(2))
    assert "invalid score 101" in result.failures[0].error
    assert not scheduler.cache.state.assumed_pods()
    assert scheduler.context.rotation.start == 0


def test_random_ties_follow_the_seed() -> None:
    chosen = set()
    for seed in range(12):
        scheduler, _ = liking({"r0": 0, "r1": 0}, "4", "4", tie_break="random", seed=seed)
        result = place(scheduler, gang(2, RACK), members(2))
        chosen.add(names(scheduler, result.rows.tolist())[0][:2])
    assert chosen == {"n0", "n1"}


# ---- a placement against a cluster of its nodes alone ------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**64),
    nodes=st.sampled_from([3, 30, 240]),
    tie_break=st.sampled_from(["first", "go-heap"]),
    start=st.integers(0, 500),
)
def test_a_search_in_a_placement_is_one_over_a_cluster_without_the_other_nodes(
    seed: int, nodes: int, tie_break: str, start: int
) -> None:
    whole, pods = made_up(seed, nodes, 30, True, tie_break=tie_break)
    pods = [one for one in pods if not (one.spec.affinity or one.spec.topology_spread_constraints)]
    rows = np.ascontiguousarray(whole.context.view_rows()[seed % 3 :: 2])
    kept = [whole.table.objects[row] for row in rows]
    labelled = [replace(n, metadata=replace(n.metadata, labels={**n.metadata.labels})) for n in kept if n]
    alone = Scheduler(Cluster(nodes=labelled), tie_break=tie_break)
    order = [whole.table.row_name(row) for row in rows]
    assume(alone.context.view_order() == order)  # not with zones that list a part in another order
    whole.placer.decider.start, alone.placer.decider.start = start % nodes, start % nodes
    whole.placer.search.search_in(rows)
    for one in pods[:10]:
        there, here = (
            schedule_one(whole.context, one),
            schedule_one(alone.context, one),
        )
        assert there.node == here.node
        assert there.evaluated == here.evaluated
        assert there.next == here.next
        assert there.fit_error == here.fit_error
    there_all, here_all = (each.schedule_pods(pods[10:]) for each in (whole, alone))
    assert names(whole, there_all.rows.tolist()) == names(alone, here_all.rows.tolist())
    assert whole.context.rotation.start == alone.context.rotation.start
    assert {at: f.search_message for at, f in there_all.failures.items()} == {
        at: f.search_message for at, f in here_all.failures.items()
    }
    whole.placer.search.search_in(None)
    assert Placement("", rows).rows is rows
    assert np.array_equal(whole.context.view_rows()[seed % 3 :: 2], rows)


def test_an_extender_leaves_the_count_of_the_nodes_of_a_placement() -> None:
    """What a pod is told counts its rack's nodes, whether an extender takes part or not."""
    with ExtenderServer(filter=only()) as server:
        told = [
            place(bound_to_racks("1", "1", "1", size=1, **more), gang(2, RACK), members(2, "4"))
            .failures[0]
            .message
            for more in ({}, {"config": configured(of(server.url, "filter"))})
        ]
    assert told[0].startswith("0/1 nodes are available: 1 Insufficient cpu."), told
    assert told[1] == told[0]
