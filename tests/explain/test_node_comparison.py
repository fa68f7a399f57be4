"""Why a pod goes to one node and not to another, and what would turn it."""

from __future__ import annotations

from random import Random

import pytest
from tests.explain.explain_world import document, random_pod, random_world
from tests.make import node, pod

from moorage import Scheduler, default_profile
from moorage.answers.explain import explain_in_turn
from moorage.engine.framework import Profile
from moorage.kube import Cluster

NODES = [node("idle", cpu=8), node("busy", cpu=8)]
THERE = [pod("t", on="busy", requests={"cpu": 6})]


def test_a_node_that_is_behind() -> None:
    one = Scheduler(Cluster(nodes=NODES, pods=[*THERE, pod("p", requests={"cpu": 1})]))
    seen = one.ask.explain("default/p")
    found = seen.node("busy").comparison
    assert found is not None
    assert seen.node("idle").comparison is None
    assert (found.chosen, found.other) == ("idle", "busy") == (seen.chosen, "busy")
    assert sum(each.weighted for each in found.differences) == found.other_total - found.chosen_total < 0
    assert found.text.startswith(f"busy is {found.chosen_total - found.other_total} behind idle; ")
    made = document(seen, nodes=["busy"])["details"][0]["comparison"]
    assert (made["chosen"], made["total"], made["text"]) == ("idle", found.other_total, found.text)


def test_equal_totals_and_nodes_that_do_not_fit() -> None:
    one = Scheduler(Cluster(nodes=[node("a"), node("b"), node("c", cpu=0)]))
    seen = one.ask.explain(pod("p", requests={"cpu": 1}))
    found = seen.node("b").comparison
    assert found is not None
    assert found.text == "b has the total of a: the order among equal ones decides"
    assert seen.node("c").comparison is None


def test_a_pod_is_compared_with_the_node_that_it_is_on() -> None:
    bound = pod("p", on="busy", requests={"cpu": 1})
    found = (
        Scheduler(Cluster(nodes=NODES, pods=[*THERE, bound])).ask.explain("default/p").node("idle").comparison
    )
    assert found is not None
    ahead = found.other_total - found.chosen_total
    assert found.text == f"idle is {ahead} ahead of busy: the pod was placed before, and is not moved"


def test_a_search_that_ends_before_the_best_node() -> None:
    nodes = [*(node(f"n{at:03}", cpu=8) for at in range(150)), node("z", cpu=64)]
    cluster = Cluster(nodes=nodes, pods=[pod("p", requests={"cpu": 1})])
    by_percentage = {
        percentage: explain_in_turn(
            lambda of=percentage: Scheduler(cluster, percentage_of_nodes_to_score=of), ["default/p"]
        )["default/p"]
        for percentage in (0, 100)
    }
    part, whole = by_percentage[0], by_percentage[100]
    ends = "the search ends after 100 feasible nodes (percentageOfNodesToScore 0, which adapts), before z"
    assert (part.situation.node, part.sampling) == ("n000", ends)
    found = part.node("z").comparison
    assert found is not None
    assert found.text.endswith(f"ahead of n000: {ends}")
    assert document(part)["nodes"] == {"total": 151, "feasible": 151, "enough": 100}
    assert document(part)["sampling"] == ends
    assert (whole.situation.node, whole.sampling, whole.enough) == ("z", "", 151)


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(40))
def test_a_weight_that_would_turn_it_does(seed: int) -> None:
    random = Random(seed)
    world, asked = random_world(random), random_pod(random)
    seen = world.scheduler().ask.explain(asked)
    for name in seen.feasible:
        comparison = seen.node(name).comparison
        for plugin, weight in comparison.turning.items() if comparison is not None else ():
            profile = Profile(default_profile().plugins, weight_overrides={plugin: weight})
            assert world.scheduler(profile=profile).ask.explain(asked).examination.best == [name]


def test_some_of_these_clusters_have_weights_that_would_turn_it() -> None:
    def turns(seed: int) -> bool:
        random = Random(seed)
        world, asked = random_world(random), random_pod(random)
        seen = world.scheduler().ask.explain(asked)
        found = (seen.node(name).comparison for name in seen.feasible)
        return any(one is not None and one.turning for one in found)

    assert any(map(turns, range(40)))
