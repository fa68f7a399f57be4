"""What v1.38 decides otherwise of groups, and no recorded scenario shows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.make import configuration, node
from tests.preemption.world import nominated, victim
from tests.scheduler.groups.gang_kit import (
    composite,
    gang,
    member,
    members,
    nodes,
    on_nodes,
    store_of,
    topology,
    world,
)
from tests.words import COMPOSITE_POD_GROUP

from moorage import Scheduler
from moorage.engine.framework import QueueingHint
from moorage.kube import (
    AllDisruptionMode,
    CompositePodGroup,
    Condition,
    DisruptionMode,
    Object,
    Pod,
    PodGroup,
    PodSchedulingGate,
    SingleDisruptionMode,
)
from moorage.kube.releases import feature_gates, release_named

GATES = "GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"
ALL = {"disruption_mode": DisruptionMode(all=AllDisruptionMode())}
SINGLE = {"disruption_mode": DisruptionMode(single=SingleDisruptionMode())}


def of(version: str, *objects: Object | list[Any], **settings: Any) -> Scheduler:
    gates = feature_gates(dict.fromkeys(GATES, True), release_named(version))
    return world(*objects, feature_gates=gates, **settings)


def condition(scheduler: Scheduler, kind: type[PodGroup] | type[CompositePodGroup], name: str) -> Condition:
    (one,) = store_of(scheduler).get(kind, name, "default").status.conditions
    return one


@pytest.mark.parametrize(("version", "stays"), [("1.37", True), ("1.38", False)])
def test_preemption_for_a_group_ends_lower_nominations_on_its_nodes(version: str, stays: bool) -> None:
    waiting = nominated(member("low", "", cpu=9, scheduling_gates=(PodSchedulingGate("held"),)), "a")
    group = gang("p", 1, priority=10)
    one = of(version, nodes(4), [victim("v", cpu=4)], [waiting], group, members("p", 1, 3, priority=10))
    one.run()
    assert on_nodes(one) == {"p-0": "a"}
    assert bool(store_of(one).get(Pod, "low", "default").status.nominated_node_name) is stays


def test_without_reserve_nodes_are_not_ranked() -> None:
    """The pod goes to the larger node, though the victim there is the more important one."""
    there = [victim("v", "a", cpu=4, priority=5), victim("w", "b", cpu=4, priority=1)]
    group, pods = gang("p", 1, priority=10), members("p", 1, 3, priority=10)
    config = configuration(profiles=[{"plugins": {"reserve": {"disabled": [{"name": "DefaultPreemption"}]}}}])
    for changes, gone in (({}, "default/w"), ({"config": config}, "default/v")):
        one = of("1.38", nodes(5, 4), there, group, pods, **changes)
        assert {*one.run().evicted} == {gone}


def tree_of(*groups: Any) -> list[Any]:
    """A tree and a pod for each of its pod groups."""
    return [[group] for group in groups] + [
        members(group.name, 1, priority=group.spec.priority)
        for group in groups
        if isinstance(group, PodGroup)
    ]


DEEP = [composite("r", 1), composite("s", 1, "r"), composite("t", 1, "s")]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([*DEEP, gang("g", 1, "t")], ""),
        (
            [*DEEP, composite("u", 1, "t"), gang("g", 1, "u")],
            'hierarchy depth exceeds maximum allowed depth 4 at "compositepodgroup/default/u"',
        ),
        (
            [composite("r", 1, **ALL), gang("g", 1, "r", **SINGLE)],
            'parent "compositepodgroup/default/r" with All disruption mode cannot have child '
            '"podgroup/default/g" with Single disruption mode',
        ),
        ([composite("r", 1, **ALL), gang("g", 1, "r", **ALL)], ""),
        ([composite("r", 1, **SINGLE), gang("g", 1, "r", **ALL)], ""),
        ([composite("r", 0), gang("g", 0, "r")], ""),
        (
            [
                composite("r", 1, preemption_policy="Never"),
                gang("g", 1, "r", preemption_policy="PreemptLowerPriority"),
            ],
            "all pod groups in a hierarchy should have the same preemption policy, got PreemptLowerPriority "
            '("podgroup/default/g") and Never',
        ),
    ],
)
def test_a_tree_is_validated_from_the_top(groups: list[Any], message: str) -> None:
    one = of("1.38", nodes(9), *tree_of(*groups))
    result = one.run()
    assert {failure.message for failure in result.unschedulable.values()} == ({message} - {""})
    root = condition(one, CompositePodGroup, "r")
    reason = "CompositePodGroupError" if message else "Scheduled"
    assert (root.type, root.reason, root.message) == ("CompositePodGroupInitiallyScheduled", reason, message)
    assert condition(one, PodGroup, "g").reason == ("PodGroupError" if message else "Scheduled")


def test_pods_of_several_schedulers_are_no_group() -> None:
    pods = members("g", 2)
    other = replace(pods[1], spec=replace(pods[1].spec, scheduler_name="other"))
    config = configuration(profiles=[{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}])
    result = of("1.38", nodes(9), gang("g", 2), [pods[0], other], config=config).run()
    assert {failure.message for failure in result.unschedulable.values()} == {
        "all pods in a pod group hierarchy should have the same .spec.schedulerName set, got: "
        '"other" ("g-1") and "default-scheduler" ("g-0")'
    }


def test_no_pod_of_a_tree_that_succeeds_is_placed() -> None:
    """A basic group has what it needs with pods that are there; none of the new ones fits."""
    there = [member("there", "g", on="a")]
    one = of("1.38", nodes(2), gang("g", 1), there, [member("new", "g", 9)])
    result = one.run()
    assert condition(one, PodGroup, "g").message.startswith("no pods were schedulable")
    assert {*result.unschedulable} == {"default/new"}


@pytest.mark.parametrize(("version", "wakes"), [("1.37", False), ("1.38", True)])
def test_a_tree_that_needs_fewer_groups_wakes_its_pods(version: str, wakes: bool) -> None:
    tree = tree_of(composite("r", 2), gang("g", 1, "r"))
    one = of(version, nodes(2), *tree)
    (plugin,) = (each for each in one.profile.plugins if each.name == "GangScheduling")
    hints = [each.hint for each in plugin.events_to_register() if each.event.resource == COMPOSITE_POD_GROUP]
    assert len(hints) == 1 + wakes
    for fewer, hint in ((1, QueueingHint.QUEUE), (2, QueueingHint.QUEUE_SKIP)) if wakes else ():
        assert hints[1](tree[2][0], composite("r", 2), composite("r", fewer)) is hint


@pytest.mark.parametrize(("group_on", "pods_on"), [("a", "b"), ("b", "a")])
def test_a_group_is_a_dearer_victim_than_as_many_pods(group_on: str, pods_on: str) -> None:
    whole = [member(f"w-{at}", "w", 2, on=group_on, priority=1) for at in range(2)]
    single = [victim(f"v-{at}", pods_on, cpu=2, priority=1) for at in range(2)]
    groups = [gang("w", 1, priority=1, **ALL), gang("p", 1, priority=10)]
    one = of("1.38", nodes(4, 4), groups, [*whole, *single], members("p", 1, 3, priority=10))
    assert {*one.run().evicted} == {"default/v-0", "default/v-1"}


@pytest.mark.parametrize(("percentage", "where"), [(50, {"a"}), (100, {"b", "c"})])
def test_a_group_takes_the_best_of_the_placements_that_are_wanted(percentage: int, where: set[str]) -> None:
    """The second rack has room for both pods."""
    config = configuration(percentageOfPlacementsToScore=percentage)
    racks = [node(name, cpu=4, labels={"rack": "1" if name == "a" else "2"}) for name in "abc"]
    group = gang("p", 1, **topology("rack"))
    one = of("1.38", racks, group, members("p", 2, 3), config=config)
    one.run()
    assert {*on_nodes(one).values()} == where
