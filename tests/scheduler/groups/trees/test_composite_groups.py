"""Composite pod groups: trees of groups whose pods are scheduled together, level by level."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import GroupTree, PodGroups, place_group
from tests.doors.store import store as store_module
from tests.make import node
from tests.preemption.world import nominated
from tests.scheduler.groups.gang_kit import (
    TREES,
    composite,
    gang,
    member,
    members,
    nodes,
    on_nodes,
    placed,
    store_of,
    topology,
)
from tests.scheduler.groups.gang_kit import world as world_of
from tests.scheduler.make import by_plugins

from moorage import Scheduler, default_profile
from moorage.kube import (
    Affinity,
    AllDisruptionMode,
    CompositePodGroup,
    Condition,
    DisruptionMode,
    LabelSelector,
    Object,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    SingleDisruptionMode,
)


def world(*objects: Object | list[Any], **settings: Any) -> Scheduler:
    return world_of(*objects, **{"feature_gates": TREES} | settings)


WHOLE = {"disruption_mode": DisruptionMode(all=AllDisruptionMode())}
TERM = PodAffinityTerm(LabelSelector(match_labels={"app": "x"}), topology_key="rack")
APART = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))
SINGLE = {"disruption_mode": DisruptionMode(single=SingleDisruptionMode())}


def tried(scheduler: Scheduler) -> dict[str, str]:
    """Why each pod that was not placed failed."""
    result = scheduler.run()
    return {key.removeprefix("default/"): one.message for key, one in result.unschedulable.items()}


def conditions(scheduler: Scheduler) -> dict[str, tuple[str, str]]:
    """Status and message of the condition of each group, by name."""
    store = store_of(scheduler)
    groups: list[PodGroup | CompositePodGroup] = [*store.list(PodGroup)[0], *store.list(CompositePodGroup)[0]]
    return {
        group.name: (one.status, one.message) for group in groups for one in group.status.conditions if one
    }


# ---- the queue ---------------------------------------------------------------------------------------------


def test_pods_wait_until_the_tree_is_there_in_any_order() -> None:
    """A root that needs one of two trees, and a middle group that needs one group of two pods."""
    objects: list[Object] = [
        composite("root", 1),
        composite("mid", 1, "root"),
        gang("g", 2, "mid"),
        *members("g", 2),
    ]
    for order in permutations(objects):
        scheduler = world(nodes(9))
        for at, one in enumerate(order):
            assert not on_nodes(scheduler)
            store_of(scheduler).create(one)
            scheduler.run()
            assert len(on_nodes(scheduler)) == (2 if at == len(order) - 1 else 0), order


def test_why_pods_wait() -> None:
    scheduler = world(nodes(9), [gang("g", 1, "c"), *members("g", 1)])
    scheduler.run()
    status = scheduler.engines["default-scheduler"].framework.run_pre_enqueue_plugins
    assert str(status(member("x", "g")).message()) == 'waiting for composite pod group "c" spec to appear'
    store_of(scheduler).create(composite("c", 2))
    scheduler.run()
    text = 'waiting for composite pod group "c" tree to meet quorum'
    assert str(status(member("x", "g")).message()) == text
    assert not on_nodes(scheduler)
    store_of(scheduler).create_many([gang("h", 0, "c"), *members("h", 1)])
    scheduler.run()
    assert sorted(on_nodes(scheduler)) == ["g-0", "h-0"]


def test_a_cycle_of_groups_is_never_ready() -> None:
    ring = [composite("a", 1, "b"), composite("b", 1, "a"), gang("g", 1, "a"), *members("g", 1)]
    scheduler = world(nodes(9), ring)
    assert not scheduler.run().placements
    assert scheduler.groups.root(("default", "g")) is None


def test_a_group_counts_with_the_pods_that_were_placed_before() -> None:
    """Of group g one pod is there, as it needs; its other pod fits nowhere."""
    scheduler = world(nodes(4), composite("c", 2), [gang("g", 1, "c"), gang("h", 1, "c")])
    store_of(scheduler).create_many([member("g-0", "g"), member("h-0", "h")])
    scheduler.run()
    store_of(scheduler).create_many([member("g-1", "g", cpu=5), member("h-1", "h")])
    scheduler.run()
    assert sorted(on_nodes(scheduler)) == ["g-0", "h-0", "h-1"]


def test_pods_leave_their_tree_with_a_deleted_group() -> None:
    scheduler = world(nodes(1), composite("c", 2), [gang("g", 1, "c"), gang("h", 1, "c")])
    store_of(scheduler).create_many([member("g-0", "g"), member("h-0", "h", cpu=5)])
    scheduler.run()
    unit = ("default", "CompositePodGroup/c")
    assert {info.unit for info in scheduler.queue.inactive()} == {unit}
    store_of(scheduler).delete(CompositePodGroup, "c", "default")
    scheduler.sync()
    assert {info.unit for info in scheduler.queue.inactive()} == {("default", "g"), ("default", "h")}


def test_the_pods_of_a_tree_are_tried_together() -> None:
    scheduler = world(nodes(9), composite("c", 1), [gang("g", 1, "c"), gang("h", 1, "c")])
    store_of(scheduler).create_many([member("h-0", "h"), member("x", ""), member("g-0", "g")])
    scheduler.sync()
    assert sorted(info.pod.name for info in scheduler.queue.pop(1)) == ["g-0", "h-0"]


# ---- the cycle ---------------------------------------------------------------------------------------------


def tree(*minima: int, root: int) -> list[Object]:
    """A composite group of groups of three pods each."""
    return [composite("c", root), *(gang(f"g{at}", minimum, "c") for at, minimum in enumerate(minima))]


@pytest.mark.parametrize(
    ("cpus", "root", "expected"), [(9, 3, 9), (8, 3, 0), (8, 2, 6), (3, 1, 3), (2, 0, 0)]
)
def test_all_or_nothing_at_each_level(cpus: int, root: int, expected: int) -> None:
    pods = [one for at in range(3) for one in members(f"g{at}", 3)]
    scheduler = world(nodes(cpus), tree(3, 3, 3, root=root), pods)
    assert len(scheduler.run().placements) == expected


def test_groups_are_tried_from_the_oldest_on() -> None:
    old, new = gang("b", 3, "c"), gang("a", 3, "c")
    old = replace(old, metadata=replace(old.metadata, creation_timestamp="2026-01-01T00:00:00Z"))
    new = replace(new, metadata=replace(new.metadata, creation_timestamp="2026-01-01T00:00:01Z"))
    scheduler = world(nodes(3), composite("c", 1), [new, old], members("a", 3), members("b", 3))
    assert sorted(placed(scheduler.run())) == ["b-0", "b-1", "b-2"]


def test_a_tree_of_three_levels() -> None:
    """Upstream's TestCPGHierarchicalScheduling: the third of three branches fails, and with it a group that
    would fit."""
    groups = [
        composite("root", 2),
        *(composite("sub1", 2, "root"), composite("sub2", 0, "root"), composite("sub3", 2, "root")),
        *(gang("pg1", 3, "sub1"), gang("pg2", 3, "sub1"), gang("pg3", 3, "sub1")),
        *(gang("pg4", 0, "sub2"), gang("pg5", 3, "sub2")),
        *(gang("pg6", 3, "sub3"), gang("pg7", 3, "sub3")),
    ]
    sizes = {"pg3": 100, "pg7": 100}
    pods = [one for at in range(1, 8) for one in members(f"pg{at}", 3, sizes.get(f"pg{at}", 1))]
    scheduler = world(nodes(20), groups, pods)
    failed = tried(scheduler)
    assert sorted(on_nodes(scheduler)) == [f"pg{at}-{n}" for at in (1, 2, 4, 5) for n in range(3)]
    assert sorted(failed) == [f"pg{at}-{n}" for at in (3, 6, 7) for n in range(3)]
    found = {name: status for name, (status, _) in conditions(scheduler).items()}
    assert found == dict.fromkeys(("pg1", "pg2", "pg4", "pg5"), "True") | dict.fromkeys(
        ("pg3", "pg6", "pg7"), "False"
    )
    text = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    text = f"pod group is unschedulable, 0/1 placements are available, first placement status: {text}"
    assert failed["pg6-0"] == text
    why = "pod group preemption: No preemption victims found for incoming preemptor"
    assert conditions(scheduler)["pg6"][1] == f"{text}, {why}, {why}"  # once for each group that shares it
    assert "Insufficient cpu" in failed["pg7-0"]


def test_nothing_changes_when_a_tree_fails() -> None:
    scheduler = world(nodes(5), tree(3, 3, root=2), members("g0", 3), members("g1", 3))
    failed = tried(scheduler)
    assert len(failed) == 6
    assert not on_nodes(scheduler)
    assert scheduler.table.requested["cpu"].sum() == 0
    text = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert failed["g0-0"].endswith(text)
    assert "1 Insufficient cpu" in failed["g1-2"]
    store_of(scheduler).create(node("more", cpu=1, pods=100))
    assert len(scheduler.run().placements) == 6


def test_a_tree_that_fails_nominates_the_pods_of_its_groups_again() -> None:
    pods = [nominated(one, "a") for at in range(2) for one in members(f"g{at}", 3)]
    last = members("g2", 3)
    scheduler = world(nodes(8), tree(3, 3, 3, root=3), pods, last)
    context, (top,) = scheduler.context, store_of(scheduler).list(CompositePodGroup)[0]
    assert not place_group(context, context.rotation.engines[0], top, [*pods, *last]).succeeded
    assert scheduler.handle.nominator.nominated_pods_for_node("a") == pods[::-1]


def test_a_group_below_its_minimum_is_not_tried() -> None:
    scheduler = world(nodes(9), tree(3, 3, root=1), members("g0", 3), members("g1", 2))
    failed = tried(scheduler)
    assert len(on_nodes(scheduler)) == 3
    assert failed["g1-0"] == (
        "pod group is unschedulable, 0/1 placements are available, first placement status: "
        "pod group is unschedulable"
    )


def test_pods_that_have_a_node_count() -> None:
    """One of two groups runs already; the other is scaled up later."""
    running = [replace(one, spec=replace(one.spec, node_name="a")) for one in members("g0", 3)]
    scheduler = world(nodes(9), tree(3, 3, root=2), running, members("g1", 3))
    assert len(scheduler.run().placements) == 3
    store_of(scheduler).create(member("g1-more", "g1"))
    assert placed(scheduler.run()) == ["g1-more"]
    store_of(scheduler).create(member("g1-huge", "g1", cpu=99))
    failed = tried(scheduler)
    assert list(failed) == ["g1-huge"]


def test_priorities_of_a_tree_have_to_be_equal() -> None:
    pods = members("g0", 1)
    scheduler = world(nodes(9), composite("c", 1, priority=5), gang("g0", 1, "c", priority=5), pods)
    text = "all pods in a single pod group should have the same priority as the pod group's priority, "
    assert tried(scheduler)["g0-0"] == f"{text}got 0 and 5"
    assert not on_nodes(scheduler)


def test_pods_of_a_tree_see_those_of_the_groups_before() -> None:
    """Anti-affinity among groups: each takes a node of its own."""
    labels = {"app": "x"}
    apart = [member(f"g{at}-0", f"g{at}", labels=labels, affinity=APART) for at in range(2)]
    for free, expected in ((("A", "1", 9), ("A", "2", 9)), 2), ((("A", "1", 9),), 0):
        scheduler = world(racks(*free), tree(1, 1, root=2), apart)
        assert len(scheduler.run().placements) == expected


@pytest.mark.parametrize("seed", range(8))
def test_trees_that_fit_whole_are_placed_as_by_their_own_cycles(seed: int) -> None:
    """`GroupBatch` places trees in one call; the result is that of a cycle for each."""

    def made(**settings: Any) -> Scheduler:
        random, objects = Random(seed), list[Object]()
        for at in range(6):
            groups = random.randrange(1, 4)
            objects.append(composite(f"c{at}", random.randrange(0, groups + 1)))
            for number in range(groups):
                size = random.randrange(1, 4)
                objects.append(gang(f"c{at}-g{number}", random.randrange(0, size + 2), f"c{at}"))
                objects += members(f"c{at}-g{number}", size, random.choice([1, 1, 2, 3]))
        return world([node(name, cpu=random.randrange(2, 9)) for name in "abcdef"], objects, **settings)

    fast = made()
    fast.run()
    slow = made(profile=by_plugins(default_profile(TREES)))
    slow.run()
    assert on_nodes(fast) == on_nodes(slow)


def test_schedule_workload_places_a_composite_group() -> None:
    root = composite("c", 2)
    scheduler = world(
        nodes(6), [root, gang("g0", 3, "c"), gang("g1", 3, "c")], members("g0", 3), members("g1", 3)
    )
    scheduler.sync()
    assert scheduler.schedule_workload(root).nodes == ["a"] * 6


# ---- topology ----------------------------------------------------------------------------------------------


def racks(*free: tuple[str, str, int]) -> list[Any]:
    return [
        node(f"{zone}{rack}", labels={"zone": zone, "rack": f"{zone}{rack}"}, cpu=cpu)
        for zone, rack, cpu in free
    ]


def bound_tree(*sizes: int) -> list[Object]:
    """A composite group in one zone, of groups in one rack each."""
    groups = [gang(f"g{at}", size, "c", **topology("rack")) for at, size in enumerate(sizes)]
    pods = [one for at, size in enumerate(sizes) for one in members(f"g{at}", size)]
    return [composite("c", len(sizes), **topology("zone")), *groups, *pods]


def test_racks_within_one_zone() -> None:
    """The example of KEP-6012: in block A the second group finds no rack, since the first took the larger."""
    free = racks(("A", "1", 3), ("A", "2", 5), ("B", "1", 5), ("B", "2", 5))
    scheduler = world(free, bound_tree(5, 5))
    scheduler.run()
    found = on_nodes(scheduler)
    assert {name[:2]: on for name, on in found.items()} in (
        {"g0": "B1", "g1": "B2"},
        {"g0": "B2", "g1": "B1"},
    )
    assert len(found) == 10


def test_no_zone_takes_the_tree() -> None:
    free = racks(("A", "1", 3), ("A", "2", 5), ("B", "1", 5))
    scheduler = world(free, bound_tree(5, 5))
    failed = tried(scheduler)
    assert not on_nodes(scheduler)
    text = (
        "pod group is unschedulable, 0/2 placements are available, first placement status: "
        "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    )
    assert failed["g0-0"] == text
    assert conditions(scheduler)["g0"][1].startswith(f"{text}, pod group preemption: ")


def test_pods_that_run_choose_the_zone() -> None:
    free = racks(("A", "1", 9), ("B", "1", 5), ("B", "2", 5))
    objects = bound_tree(2, 2)
    there = [replace(one, spec=replace(one.spec, node_name="B1")) for one in objects if isinstance(one, Pod)][
        :2
    ]
    rest = [one for one in objects if not (isinstance(one, Pod) and one.name.startswith("g0"))]
    scheduler = world(free, rest, there)
    scheduler.run()
    assert {on_nodes(scheduler)[f"g1-{at}"][0] for at in range(2)} == {"B"}


# ---- preemption --------------------------------------------------------------------------------------------


def low(group: str, on: str, cpu: int = 2, **rest: Any) -> Pod:
    one = member(f"{group}-{on}", group, cpu, **rest)
    return replace(one, spec=replace(one.spec, node_name=on))


def test_pods_are_evicted_for_a_tree() -> None:
    there = [low("", on, priority=0) for on in "abc"]
    urgent = [composite("c", 2, priority=9), gang("g0", 1, "c", priority=9), gang("g1", 1, "c", priority=9)]
    pods = [member(f"g{at}-0", f"g{at}", cpu=2, priority=9) for at in range(2)]
    scheduler = world(nodes(2, 2, 2), urgent, there, pods, feature_gates=TREES)
    result = scheduler.run()
    assert len(result.evicted) == 2
    assert {one.by for one in result.evicted.values()} == {"default/c"}
    assert len(result.placements) == 2


@pytest.mark.parametrize(
    ("root", "leaf", "victims"),
    [(SINGLE, SINGLE, 1), (SINGLE, WHOLE, 2), (WHOLE, WHOLE, 4), (WHOLE, SINGLE, 4)],
)
@pytest.mark.parametrize("by_group", [False, True])
def test_the_topmost_group_that_goes_whole_is_evicted(
    root: dict[str, Any], leaf: dict[str, Any], victims: int, by_group: bool
) -> None:
    """Two groups of two pods, each on a node of its own; the preemptor needs one node."""
    groups = [composite("c", 1, **root), gang("g", 1, "c", **leaf), gang("h", 1, "c", **leaf)]
    there = [low("g", "a"), low("g", "b"), low("h", "c"), low("h", "d")]
    urgent: list[Object] = [member("u-0", "u" if by_group else "", cpu=2, priority=9)]
    urgent += [gang("u", 1, priority=9)] if by_group else []
    scheduler = world(nodes(2, 2, 2, 2), groups, there, urgent)
    result = scheduler.run()
    assert (len(result.evicted), placed(result)) == (victims, ["u-0"])


# ---- the index ---------------------------------------------------------------------------------------------


def test_the_index_of_trees() -> None:
    scheduler = world(
        composite("c", 1), composite("d", 1, "c"), gang("g", 1, "d"), gang("h", 1, "c"), gang("i", 1)
    )
    scheduler.sync()
    groups: PodGroups = scheduler.groups
    c, d, g, h, i = (
        ("default", name) for name in ("CompositePodGroup/c", "CompositePodGroup/d", "g", "h", "i")
    )
    assert groups.ancestors(g) == [d, c]
    assert [groups.root(key) for key in (g, h, i, d, c)] == [c, c, i, c, c]
    assert groups.root(("default", "none")) is None
    assert groups.tree(c).leaves == (g, h)
    assert sorted(groups.leaves(c)) == [g, h]
    assert [one.key for one in groups.tree(c)] == [c, d, g, h]
    assert groups.leaves(i) == (i,)
    scheduler.client.create(gang("j", 1, "d"))
    scheduler.sync()
    assert sorted(groups.leaves(c)) == [g, h, ("default", "j")]
    assert sorted(groups.leaves(d)) == [g, ("default", "j")]


def test_the_state_of_a_group_with_a_new_condition_is_made_when_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = world(composite("c", 1), gang("g", 1, "c"))  # no pod waits that hints would be asked about
    scheduler.sync()
    made, plain, groups = list[Any](), store_module._with_condition, scheduler.groups
    monkeypatch.setattr(store_module, "_with_condition", lambda *of: made.append(of) or plain(*of))
    ready, g = Condition(type="PodGroupInitiallyScheduled", status="False"), ("default", "g")
    store_of(scheduler).set_condition([groups.known(g)], ready)
    scheduler.sync()
    assert groups.known(g) is groups.tree(("default", "CompositePodGroup/c")).children[0].group
    assert made == []
    assert groups.get(g).status.conditions == (ready,)
    assert len(made) == 1


def test_trees_stay_until_a_group_changes_in_more_than_its_conditions() -> None:
    scheduler = world(composite("c", 1), gang("g", 1, "c"), gang("h", 1, "c"))
    scheduler.sync()
    groups, c, g = scheduler.groups, ("default", "CompositePodGroup/c"), ("default", "g")
    before, priorities = groups.tree(c), groups.priorities()
    assert groups.priority_of(g) == 0
    store, ready = store_of(scheduler), Condition(type="PodGroupInitiallyScheduled", status="False")
    for kind in (PodGroup, CompositePodGroup):
        store.set_condition(store.list(kind)[0], ready)
    scheduler.sync()
    assert groups.tree(c) is before
    assert groups.priorities() is priorities
    assert priorities == {g: 0}
    found = store.get(PodGroup, "g", "default")
    store.update(replace(found, spec=replace(found.spec, priority=7)))
    scheduler.sync()
    assert groups.priorities() is not priorities, "an answer may have changed"
    assert groups.priority_of(g) == 0
    assert groups.tree(c).children[0].group.spec.priority == 7
    for name in ("g", "h"):
        store.delete(PodGroup, name, "default")
        scheduler.sync()
    assert (groups.tree(c).leaves, groups.root(g)) == ((), None)


@pytest.mark.parametrize(
    ("pending", "bound", "minimum", "succeeds"),
    [
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, 2, True),
        ({"a": 1, "b": 2}, {"b": 1}, 2, False),  # a would have one of two pods
        ({"a": 1, "b": 2}, {"a": 1}, 2, True),
        ({"a": 2}, {}, 2, False),  # b has nothing to place, and does not count
        ({"a": 2}, {}, 1, True),
        ({"a": 2}, {"b": 1}, 2, False),
        ({"a": 2}, {"b": 2}, 2, True),
    ],
)
def test_whether_a_tree_succeeds_if_all_its_pods_are_placed(
    pending: dict[str, int], bound: dict[str, int], minimum: int, succeeds: bool
) -> None:
    groups = [gang("a", 2, "top"), gang("b", 2, "top")]
    top = composite("top", minimum)
    tree = GroupTree(top.unit, top, tuple(GroupTree(one.unit, one) for one in groups))
    keys = {one.name: one.unit for one in groups}
    known = [{keys[name]: count for name, count in counts.items()} for counts in (pending, bound)]
    assert tree.succeeds_whole(*known) == succeeds


def test_a_group_that_needs_one_pod_and_has_none_does_not_succeed() -> None:
    single = gang("a", 1)
    assert not GroupTree(single.unit, single).succeeds_whole({}, {})
    assert GroupTree(single.unit, single).succeeds_whole({single.unit: 1}, {})


def test_a_tree_is_tried_group_by_group() -> None:
    """Whatever the order in which its pods have come."""
    pods = [*members("g0", 2, 1), *members("g1", 2, 1)]
    mixed = [pods[at] for at in (2, 0, 3, 1)]
    tree = [composite("c", 2), gang("g0", 2, "c"), gang("g1", 2, "c")]
    free = [node(name, cpu=1) for name in "abcd"]
    one = world(free, tree, tie_break="first")
    for each in mixed:
        store_of(one).create(each)
    one.run()
    assert on_nodes(one) == {"g0-0": "a", "g0-1": "b", "g1-0": "c", "g1-1": "d"}


def test_a_composite_group_without_groups_has_no_condition() -> None:
    one = world(nodes(9), composite("c", 1), composite("empty", 1, "c"), gang("g", 1, "c"), members("g", 1))
    assert placed(one.run()) == ["g-0"]
    assert conditions(one) == {"g": ("True", "")}
    other = [member("h-0", "h"), member("h-1", "h", scheduler_name="other")]
    one = world(nodes(9), composite("c", 1), composite("empty", 1, "c"), gang("h", 1, "c"), other)
    one.run()
    assert "empty" not in conditions(one)
