"""Trees of groups bound to topologies, placed with the memory of earlier trees, each as in its own cycle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conftest import NIGHTLY
from tests.make import node
from tests.scheduler.groups.gang_kit import (
    TREES,
    composite,
    gang,
    member,
    members,
    on_nodes,
    placed,
    store_of,
    topology,
    world,
)
from tests.scheduler.groups.group_world import note_searches
from tests.scheduler.groups.trees.test_composite_groups import conditions, racks
from tests.scheduler.make import by_plugins

from moorage import Scheduler, default_profile
from moorage.kube import Object, Pod, ResourceRequirements

ZONE, RACK = topology("zone"), topology("rack")


def bound_tree(random: Random, at: int) -> list[Object]:
    """A tree of one of few kinds: of two or three levels, bound at some of them."""
    name, objects = f"c{at}", list[Object]()
    top = random.choice([ZONE, ZONE, {}])
    kinds = [((1, 2), RACK), ((1, 2), RACK), ((2, 2), RACK), ((3,), RACK), ((2, 1), {}), ((2, 2, 1), ZONE)]
    sizes, below = random.choice(kinds)
    objects.append(composite(name, random.randrange(1, len(sizes) + 1), **top))
    inner = random.random() < 0.3
    if inner:
        objects.append(composite(f"{name}-m", 1, name, **random.choice([RACK, {}])))
    for number, size in enumerate(sizes):
        own, parent = f"{name}-g{number}", f"{name}-m" if inner and number else name
        least = random.choice([size, size, size, max(1, size - 1)])
        objects += [gang(own, least, parent, **below), *members(own, size, random.choice([1, 1, 2]))]
    return objects


def bound_trees(seed: int, **options: Any) -> Scheduler:
    """Trees, some after pods have gone, in zones of several racks."""
    random = Random(seed)
    names = [(zone, f"{rack}{at}") for zone in "ABC" for rack in "xy" for at in range(2)]
    free = [
        node(f"{zone}{name}", labels={"zone": zone, "rack": zone + name[0]}, cpu=random.randrange(2, 9))
        for zone, name in names
    ]
    trees = [bound_tree(random, at) for at in range(9)]
    scheduler = world(free, *trees[:4], feature_gates=TREES, **options)
    scheduler.run()
    store = store_of(scheduler)
    for one in random.sample(store.list(Pod)[0], 3):
        store.delete(Pod, one.name, "default")
    for each in (one for tree in trees[4:] for one in tree):
        store.create(each)
    scheduler.run()
    return scheduler


def state_of(scheduler: Scheduler) -> tuple[object, ...]:
    return on_nodes(scheduler), scheduler.context.rotation.start, conditions(scheduler)


@pytest.mark.parametrize("tie_break", ["first", "go-heap", "random"])
@pytest.mark.parametrize("seed", range(16 if NIGHTLY else 3))
def test_what_is_remembered_changes_no_decision(seed: int, tie_break: str) -> None:
    options: dict[str, Any] = {"tie_break": tie_break}
    fast = bound_trees(seed, **options)
    slow = bound_trees(seed, **options, profile=by_plugins(default_profile(TREES)))
    assert state_of(fast) == state_of(slow)


def two_trees() -> tuple[list[Any], list[Object]]:
    free = racks(*[(zone, rack, 8) for zone in "ABC" for rack in "12"])
    objects = list[Object]()
    for at in range(2):
        objects += [composite(f"c{at}", 1, **ZONE), gang(f"g{at}", 2, f"c{at}", **RACK)]
        objects += members(f"g{at}", 2, 1)
    return free, objects


def test_a_rack_is_searched_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tree is tried in all racks, the second in that where the first went."""
    searched = note_searches(monkeypatch)
    free, objects = two_trees()
    scheduler = world(free, objects, feature_gates=TREES)
    scheduler.run()
    assert searched[:6] == ["A1", "A2", "B1", "B2", "C1", "C2"]
    assert searched[6:] == [on_nodes(scheduler)["g0-0"]]


def test_what_was_found_beside_a_group_that_was_undone_is_not_remembered() -> None:
    """In zone B the second group of the first tree found the node that the first one had left."""
    racks = ("a0", "A", 1), ("a1", "A", 1), ("b0", "B", 4), ("b1", "B", 4)
    free = [node(name, labels={"zone": zone, "rack": zone}, cpu=cpu) for name, zone, cpu in racks]
    objects = list[Object]()
    for tree, groups in ("c", ("g", "h")), ("d", ("i",)):
        objects.append(composite(tree, len(groups), **ZONE))
        for name in groups:
            objects += [gang(name, 1, tree, **RACK), *members(name, 1)]
    scheduler = world(free, objects, feature_gates=TREES)
    scheduler.run()
    assert on_nodes(scheduler) == {"g-0": "a0", "h-0": "a1", "i-0": "b0"}


@pytest.mark.parametrize("is_tree", [True, False])
def test_a_pod_without_a_score_fails_the_group_in_its_own_cycle(is_tree: bool) -> None:
    """Among two nodes of a rack the pod is scored, beyond what 64 bits hold; in the other rack it is not."""
    requests = {"cpu": "9223372036854775807m", "memory": "9223372036854775807"}
    broken = member("z", "g", overhead={"cpu": "2", "memory": "16Ei"})
    huge = replace(broken.spec.containers[0], resources=ResourceRequirements(requests=requests))
    broken = replace(broken, spec=replace(broken.spec, containers=(huge,)))
    group = gang("g", 2, "c" if is_tree else "", **RACK)
    over = [composite("c", 1, **ZONE)] if is_tree else []
    outcomes = []
    for profile in default_profile(TREES), by_plugins(default_profile(TREES)):
        where = {"zone": "A", "rack": "1"}, {"zone": "A", "rack": "2"}, {"zone": "A", "rack": "2"}
        free = [node(f"n{at}", labels=labels) for at, labels in enumerate(where)]
        scheduler = world(
            free, over, [group], [member("q", "g"), broken], feature_gates=TREES, profile=profile
        )
        result = scheduler.run()
        outcomes.append((placed(result), {key: str(why) for key, why in result.unschedulable.items()}))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == []
    assert "returns an invalid score -" in str(outcomes[0][1])
