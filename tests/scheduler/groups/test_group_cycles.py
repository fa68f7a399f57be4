"""What the pods of a group see of one another in a cycle, what a cycle leaves, and who is evicted in it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import node, pod
from tests.preemption.world import victim
from tests.scheduler.groups.gang_kit import gang, member, members, nodes, on_nodes, store_of, world
from tests.scheduler.groups.group_world import place
from tests.scheduler.placing.alone import place_alone

from moorage import Cluster, Scheduler
from moorage.kube import (
    Affinity,
    Container,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = "xyz"


def term(app: str, key: str = HOST) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels={"app": app}))


def likes(app: str, weight: int = 100, key: str = HOST) -> PodAffinity:
    return PodAffinity(preferred=(WeightedPodAffinityTerm(weight, term(app, key)),))


# ---- terms of pods placed earlier --------------------------------------------------------------------------


def made(random: Random, name: str, **rest: Any) -> Pod:
    """A pod with one or two terms, or none."""
    kind, other = random.randrange(6), random.choice(APPS)
    key = random.choice([HOST, ZONE])
    anti = PodAffinity(required=(term(other, key),)) if kind in (0, 1) else None
    liking = likes(other, random.randint(1, 100), key) if kind in (1, 2) else None
    needs = PodAffinity(required=(term(other, key),)) if kind == 3 else liking
    affinity = Affinity(pod_affinity=needs, pod_anti_affinity=anti) if anti or needs else None
    return member(
        name, "g", random.randint(1, 2), labels={"app": random.choice(APPS)}, affinity=affinity, **rest
    )


def slowly(cluster: list[Any], there: list[Pod], pods: list[Pod]) -> list[str | None]:
    """Where the pods of a group go: a scheduler of its own decides about each."""
    mates: list[Pod] = []
    found: list[str | None] = []
    for one in pods:
        at = Scheduler(Cluster(nodes=cluster, pods=[*there, *mates]), tie_break="first").examine(one)
        node_name = at.best[0] if at.best else None
        found.append(node_name)
        if node_name is not None:
            mates.append(replace(one, spec=replace(one.spec, node_name=node_name)))
    return found


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**64), count=st.integers(2, 8), many=st.booleans())
def test_a_group_is_placed_as_pods_one_after_the_other(seed: int, count: int, many: bool) -> None:
    random = Random(seed)
    cluster = [
        node(f"n{at}", cpu=random.randint(4, 9), labels={HOST: f"n{at}", ZONE: random.choice("pq")})
        for at in range(5)
    ]
    there = [made(random, f"t{at}", node_name=f"n{random.randrange(3)}") for at in range(3)]
    pods = [made(random, f"m{at}") for at in range(count)]
    one = Scheduler(Cluster(nodes=cluster, pods=there), tie_break="first")
    if not many:
        place_alone(one)
    result = place(one, gang("g", 0), pods)
    names = [one.table.row_name(row) if row >= 0 else None for row in result.rows.tolist()]
    expected = slowly(cluster, there, pods)
    assert names == (expected if result.succeeded else [None] * count)
    late = [made(random, f"l{at}") for at in range(3)]
    bound = [replace(p, spec=replace(p.spec, node_name=n)) for p, n in zip(pods, names, strict=True) if n]
    other = Scheduler(Cluster(nodes=cluster, pods=[*there, *bound]), tie_break="first")
    assert one.schedule_pods(late).rows.tolist() == other.schedule_pods(late).rows.tolist()


# ---- what a cycle leaves -----------------------------------------------------------------------------------


def test_image_counts_are_taken_over_by_the_next_cycle() -> None:
    """Those of nodes on which a group was placed, which show in its cycle what they showed before."""
    image = [(["i:1"], 900 << 20)]
    one = world([node("a", cpu=9, images=image)])
    assert one.context.view_order() == ["a"]
    store_of(one).create(node("b", cpu="1m", images=image))
    one.sync()
    asking = pod("p", containers=(Container(name="c", image="i:1"),))

    def scores() -> list[int]:
        found: list[int] = one.examine(asking).raw["ImageLocality"].tolist()
        return found

    before, after = scores()
    assert before < after, "a was copied before there was b"
    assert place(one, gang("g", 1), members("g", 1)).rows.tolist() == [0]
    assert scores() == [after, after]
    assert not one.cache.state.view.freezes_counts


@pytest.mark.parametrize("ending", ["invalid", "deleted"])
def test_a_cycle_that_ends_before_a_node_is_asked_has_taken_its_snapshot(ending: str) -> None:
    """A zone that changes later leaves the list as it is (v1.37, scheduleOnePodGroup, UpdateSnapshot)."""
    there = [node(name, cpu=9, zone=zone) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    one = world(there, tie_break="first")
    store = store_of(one)
    store.create(gang("g", 1))
    (mine,) = members("g", 1, priority=7 if ending == "invalid" else 0)
    if ending == "deleted":
        mine = replace(mine, metadata=replace(mine.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    store.create(mine)
    assert not one.run().placements
    store.update(node("a", cpu=9, zone="z"))
    store.create(pod("late"))
    assert one.run().placements == {"default/late": "a"}
    assert one.cache.state.view.node_names() == ["a", "c", "b"]


def test_a_mate_on_a_node_changes_no_image_count_within_the_cycle() -> None:
    """After the first pod was placed on a, the image still counts as that of one node there, so that the next
    pod goes to the fuller node b; in the next cycle it counts alike on both."""
    image = [(["i:1"], 900 << 20)]
    one = world([node("a", cpu=10, images=image)])
    assert one.context.view_order() == ["a"]
    store_of(one).create(node("b", cpu=10, images=image))
    store_of(one).create(pod("there", "b", requests={"cpu": 4}))
    one.sync()
    plain, *pods = (member(f"g-{at}", "g", cpu="1m") for at in range(3))
    using = (Container(name="c", image="i:1"),)
    first, second = (replace(it, spec=replace(it.spec, containers=using)) for it in pods)
    assert place(one, gang("g", 2), [plain, first]).rows.tolist() == [0, 1]
    assert place(one, gang("g", 1), [second]).rows.tolist() == [0]


# ---- who is evicted in it ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "stays"), [(0, ""), (1, "a")])
def test_a_group_that_fails_ends_the_nominations_of_its_pods_that_fit(at: int, stays: str) -> None:
    group = members("g", 2, cpu=3)
    group[at] = replace(group[at], status=replace(group[at].status, nominated_node_name="a"))
    one = world(nodes(4), gang("g", 2), group)
    assert set(one.run().unschedulable) == {"default/g-0", "default/g-1"}
    found = {each.name: each.status.nominated_node_name for each in store_of(one).list(Pod)[0]}
    assert found[f"g-{at}"] == stays
    assert one.handle.nominator.nominated_nodes() == ([stays] if stays else [])


def test_nominations_of_lower_priority_stay() -> None:
    low = pod("low", requests={"cpu": 1}, priority=1)
    low = replace(low, status=replace(low.status, nominated_node_name="a"))
    there = [victim("v", "a", cpu=4)]
    asking = gang("g", 1, priority=10)
    one = world(nodes(4), there, [low], asking, members("g", 1, cpu=4, priority=10))
    assert one.handle.nominator.nominated_node(low) == "a"
    result = place(one, asking, members("g", 1, cpu=4, priority=10), evicts=True)
    assert result.failures[0].nominated_node == "a"
    assert one.handle.nominator.nominated_node(low) == "a"


def test_a_workload_evicts_nobody() -> None:
    asking = gang("g", 1, priority=10)
    one = world(nodes(4), [victim("v", "a", cpu=4)], asking, members("g", 1, cpu=4, priority=10))
    result = one.schedule_workload(asking)
    assert result.failures[0].message == "0/1 nodes are available: 1 Insufficient cpu."
    assert on_nodes(one) == {"v": "a"}


def test_a_pod_that_is_left_of_a_group_that_succeeded_is_tried_again_at_once() -> None:
    one = world(nodes(4), gang("g", 1), members("g", 3, cpu=2))
    assert set(one.run().placements) == {"default/g-0", "default/g-1"}
    (left,) = one.queue.inactive()
    group = one.queue.entry_of(left)
    assert (group.attempts, group.unschedulable_count) == (3, 2), (
        "the attempt that placed the others succeeded"
    )
