"""What the pods of a group see of one another in a cycle, what a cycle leaves, and who is evicted in it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.framework.make import make
from tests.preemption.world import victim
from tests.scheduler.groups.gang_kit import gang, member, members, nodes, on_nodes, store_of, world
from tests.scheduler.groups.group_world import place
from tests.scheduler.make import profile_with
from tests.scheduler.placing.alone import place_alone

import moorage as mo
from moorage import Cluster, Scheduler
from moorage.objects import Container, LabelSelector, Pod, PodGroup
from moorage.objects.model.pod import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.scheduler.groups.group_attempt import WAITS_FOR_MEMBERS, WAITS_FOR_VICTIMS
from moorage.scheduler.placing.single_cycle import schedule_one

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = "xyz"


def term(app: str, key: str = HOST) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels={"app": app}))


def likes(app: str, weight: int = 100, key: str = HOST) -> PodAffinity:
    return PodAffinity(preferred=(WeightedPodAffinityTerm(weight, term(app, key)),))


def avoiding(name: str, other: str, **rest: Any) -> Pod:
    """A pod that shares its node with no pod of another app."""
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term(other),)))
    return member(name, "g", labels={"app": name}, affinity=affinity, **rest)


def hosts(*cpus: int) -> list[Any]:
    return [node(name, cpu=cpu, labels={HOST: name}) for name, cpu in zip("abcdef", cpus, strict=False)]


# ---- terms of pods placed earlier --------------------------------------------------------------------------


@pytest.mark.parametrize("bugs", [True, False])
def test_anti_affinity_of_a_mate_counts_where_such_pods_were_before(bugs: bool) -> None:
    pods = [avoiding("x", "y"), member("y", "g", labels={"app": "y"})]
    one = world(hosts(9), group_cycle_bugs=bugs)
    assert place(one, gang("g", 1), pods).rows.tolist() == ([0, 0] if bugs else [0, -1])
    before = avoiding("z", "nobody", node_name="a")
    listed = world(hosts(9), [before], group_cycle_bugs=bugs)
    assert place(listed, gang("g", 1), pods).rows.tolist() == [0, -1], "the node has such a pod"


def test_after_the_cycle_all_terms_count() -> None:
    one = world(hosts(9))
    assert place(one, gang("g", 1), [avoiding("x", "y")] * 1).succeeded
    assert place(one, gang("g", 2), [avoiding("v", "y"), avoiding("w", "nobody")]).succeeded
    assert one.schedule_pods([pod("late", labels={"app": "y"})]).rows.tolist() == [-1]


@pytest.mark.parametrize("bugs", [True, False])
def test_preferences_of_a_mate_count_for_those_that_have_some_themselves(bugs: bool) -> None:
    liking = member("x", "g", labels={"app": "x"}, affinity=Affinity(pod_affinity=likes("y")))
    without = member("y", "g", labels={"app": "y"})
    own = replace(without, spec=replace(without.spec, affinity=Affinity(pod_affinity=likes("nobody"))))
    for late, follows in ((without, not bugs), (own, True)):
        one = world(hosts(9, 10), group_cycle_bugs=bugs)
        rows = place(one, gang("g", 1), [liking, late]).rows.tolist()
        assert (rows[0] == rows[1]) == follows


def test_a_pod_that_declares_affinity_without_a_term_lists_its_node() -> None:
    liking = member("x", "g", labels={"app": "x"}, affinity=Affinity(pod_affinity=likes("y")))
    late = member("y", "g", labels={"app": "y"})
    for affinity, follows in ((None, False), (Affinity(pod_affinity=PodAffinity()), True)):
        there = [pod(f"there-{name}", node_name=name, affinity=affinity) for name in "ab"]
        one = world(hosts(9, 10), there)
        rows = place(one, gang("g", 1), [liking, late]).rows.tolist()
        assert (rows[0] == rows[1]) == follows


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


def strip(one: Pod, keeps_anti: bool, keeps_rest: bool) -> Pod:
    """A bound pod without those of its terms that upstream does not come across."""
    affinity = one.spec.affinity
    if affinity is None:
        return one
    anti = affinity.pod_anti_affinity if keeps_anti else None
    rest = affinity.pod_affinity if keeps_rest else None
    kept = Affinity(pod_affinity=rest, pod_anti_affinity=anti)
    return replace(one, spec=replace(one.spec, affinity=kept))


def slowly(cluster: list[Any], there: list[Pod], pods: list[Pod]) -> list[str | None]:
    """Where the pods of a group go: a scheduler of its own decides about each, over what upstream sees."""
    with_terms = {one.spec.node_name for one in there if one.spec.affinity}
    with_anti = {
        one.spec.node_name for one in there if one.spec.affinity and one.spec.affinity.pod_anti_affinity
    }
    mates: list[Pod] = []
    found: list[str | None] = []
    for one in pods:
        affinity = one.spec.affinity
        own = bool(affinity and affinity.pod_affinity and affinity.pod_affinity.preferred)
        shown = [
            strip(mate, mate.spec.node_name in with_anti, own or mate.spec.node_name in with_terms)
            for mate in mates
        ]
        at = Scheduler(Cluster(nodes=cluster, pods=[*there, *shown]), tie_break="first").examine(one)
        node_name = at.best[0] if at.best else None
        found.append(node_name)
        if node_name is not None:
            mates.append(replace(one, spec=replace(one.spec, node_name=node_name)))
    return found


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**64), count=st.integers(2, 8), many=st.booleans())
def test_a_group_is_placed_as_by_looking_at_listed_nodes(seed: int, count: int, many: bool) -> None:
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
    result = place(one, None, pods)
    names = [one.table.row_name(row) if row >= 0 else None for row in result.rows.tolist()]
    expected = slowly(cluster, there, pods)
    assert names == (expected if result.succeeded else [None] * count)
    late = [made(random, f"l{at}") for at in range(3)]
    bound = [replace(p, spec=replace(p.spec, node_name=n)) for p, n in zip(pods, names, strict=True) if n]
    other = Scheduler(Cluster(nodes=cluster, pods=[*there, *bound]), tie_break="first")
    assert one.schedule_pods(late).rows.tolist() == other.schedule_pods(late).rows.tolist()


# ---- what a cycle leaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bugs", [True, False])
def test_a_group_that_fails_leaves_the_rotation_and_the_node_list(bugs: bool) -> None:
    rows = [node(f"n{at:03}", cpu=4) for at in range(150)]
    one = world(rows, group_cycle_bugs=bugs)
    assert not place(one, gang("g", 2), [*members("g", 1), *members("h", 1, cpu=9)]).succeeded
    assert one.context.rotation.start == (100 if bugs else 0)
    two = world(hosts(1, 1), group_cycle_bugs=bugs)
    assert not place(two, gang("g", 1), members("g", 1, cpu=9)).succeeded
    store = store_of(two)
    store.delete("Node", "a")
    store.create(hosts(1)[0])
    two.sync()
    assert two.context.view_order() == (["a", "b"] if bugs else ["b", "a"])


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


# ---- who is evicted in it ----------------------------------------------------------------------------------


def test_a_pod_of_a_group_evicts_others_and_the_group_waits() -> None:
    there = [victim("v", "a", cpu=4), victim("w", "b", cpu=4, priority=99)]
    one = world(nodes(4, 4, 4), there, gang("g", 2), members("g", 2, cpu=3, priority=10))
    result = place(one, gang("g", 2), members("g", 2, cpu=3, priority=10), evicts=True)
    assert not result.succeeded
    assert result.message == WAITS_FOR_VICTIMS
    assert {at: why.nominated_node for at, why in result.failures.items()} == {0: "c", 1: "a"}
    assert result.failures[0].message == WAITS_FOR_VICTIMS
    assert result.failures[1].message == "0/3 nodes are available: 3 Insufficient cpu."
    assert one.handle.postponed is None
    one.sync()
    assert sorted(one.run().placements.values()) == ["a", "c"]


def test_it_evicts_them_though_the_group_fails() -> None:
    """As upstream does it; and then nobody is nominated."""
    group = members("g", 2, cpu=3, priority=10)
    one = world(nodes(4), [victim("v", "a", cpu=4)], gang("g", 2), group)
    result = one.run()
    assert result.evicted.keys() == {"default/v"}
    assert not result.placements
    assert result.unschedulable["default/g-0"].message == WAITS_FOR_MEMBERS
    assert not any(each.status.nominated_node_name for each in store_of(one).list(Pod)[0])
    (condition,) = store_of(one).get(PodGroup, "g", "default").status.conditions
    assert condition.message == "pod group is unschedulable"


def test_a_group_that_fails_ends_the_nominations_of_its_pods() -> None:
    group = [
        replace(one, status=replace(one.status, nominated_node_name="a")) for one in members("g", 2, cpu=3)
    ]
    one = world(nodes(4), gang("g", 2), group)
    assert set(one.run().unschedulable) == {"default/g-0", "default/g-1"}
    assert not any(each.status.nominated_node_name for each in store_of(one).list(Pod)[0])
    assert not one.handle.nominator


def test_nominations_of_lower_priority_end_for_good() -> None:
    low = pod("low", requests={"cpu": 1}, priority=1)
    low = replace(low, status=replace(low.status, nominated_node_name="a"))
    there = [victim("v", "a", cpu=4)]
    one = world(nodes(4), there, [low], gang("g", 1), members("g", 1, cpu=4, priority=10))
    assert one.handle.nominator.nominated_node(low) == "a"
    result = place(one, gang("g", 1), members("g", 1, cpu=4, priority=10), evicts=True)
    assert result.failures[0].nominated_node == "a"
    assert one.handle.nominator.nominated_node(low) == ""


def test_a_workload_evicts_nobody() -> None:
    one = world(nodes(4), [victim("v", "a", cpu=4)], gang("g", 1), members("g", 1, cpu=4, priority=10))
    result = one.schedule_workload(gang("g", 1))
    assert result.failures[0].message == "0/1 nodes are available: 1 Insufficient cpu."
    assert on_nodes(one) == {"v": "a"}


def test_groups_are_tried_again_when_a_nomination_ends() -> None:
    """A pod that waits for its group is evicted for another one of it, which is alone then."""
    reserving = make(mo.ReservePlugin, "R", reserve=None, unreserve=None)
    one = world(
        gang("h", 2), gang("b", 0), node("a", cpu="5"), profile=profile_with(reserving, GangScheduling())
    )
    one.client.create(member("waiting", "h", 3))
    one.sync()
    assert schedule_one(one.context, one.client.get(Pod, "waiting", "default")).waiting
    one.client.create(member("alone", "", 2))
    assert one.run().placements == {"default/alone": "a"}
    one.client.create(member("second", "h", 3, priority=5))
    one.client.create(member("small", "b"))
    result = one.run()
    assert result.placements == {"default/small": "a"}
    assert "default/second" in result.unschedulable
