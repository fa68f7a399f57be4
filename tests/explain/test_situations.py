"""Explaining a pod as a run finds the cluster when it decides about the pod."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.conftest import NIGHTLY
from tests.explain.explain_world import document
from tests.make import ZONE, node, pod

from moorage import Scheduler
from moorage.answers.explain import Situation, explain_after_run, explain_alone, explain_in_turn
from moorage.errors import InputError
from moorage.kube import Affinity, Cluster, LabelSelector, Pod, PodAffinity, PodAffinityTerm


def next_to(name: str) -> dict[str, Any]:
    """Pods go only to zones of pods with a label."""
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": name}), topology_key=ZONE)
    wanted = PodAffinity(required=(term,))
    return {"affinity": Affinity(pod_affinity=wanted)}


def random_pods(random: Random) -> list[Pod]:
    """Some run, some want more than there is, some wait for others that come later, some evict others."""
    pods = [pod(f"r{at}", on=f"n{at % 3}", requests={"cpu": random.choice((1, 2))}) for at in range(4)]
    for at in range(10):
        labels = {"app": random.choice("xyz")}
        more: dict[str, Any] = next_to(random.choice("xyz")) if random.random() < 0.3 else {}
        more["priority"] = random.choice((0, 0, 0, 5, 9))
        pods.append(pod(f"p{at}", requests={"cpu": random.choice((1, 2, 3))}, labels=labels, **more))
    return pods


@pytest.mark.parametrize("seed", range(48 if NIGHTLY else 3))
def test_explanation_and_run_agree(seed: int) -> None:
    pods = random_pods(Random(seed))
    cluster = Cluster(nodes=[node(f"n{at}", f"z{at % 2}") for at in range(3)], pods=pods)

    def make() -> Scheduler:
        return Scheduler(cluster, tie_break="go-heap")

    result = make().run()
    evictors = {eviction.by for eviction in result.evicted.values()}
    for one in pods[4:]:
        seen = explain_in_turn(make, [one.key])[one.key]
        node_name = result.placements.get(one.key, "")
        assert (seen.situation.kind, seen.situation.node) == ("in-turn", node_name)
        if one.key in evictors:
            assert not seen.feasible
            assert seen.preemption is not None
            assert seen.preemption.choice is not None
        elif one.key in result.placements:
            assert node_name in seen.feasible
        elif one.key in result.unschedulable:
            assert result.unschedulable[one.key].message.startswith(seen.message)
            assert not seen.feasible
            assert seen.situation.message == result.unschedulable[one.key].message


def test_what_comes_before_a_pod_is_on_nodes() -> None:
    pods = [pod("late", requests={"cpu": 3}), pod("first", requests={"cpu": 3}, priority=9)]
    cluster = Cluster(nodes=[node("a")], pods=pods)

    def make() -> Scheduler:
        return Scheduler(cluster)

    in_turn = explain_in_turn(make, ["default/late"])["default/late"]
    assert not in_turn.feasible
    why = "0/1 nodes are available: 1 Insufficient cpu."
    assert in_turn.situation == Situation("in-turn", 1, 0, "", in_turn.situation.message)
    assert in_turn.situation.message.startswith(why)
    assert explain_in_turn(make, ["default/first"])["default/first"].situation == Situation(
        "in-turn", 0, 1, "a", ""
    )
    alone = explain_alone(make, ["default/late"])["default/late"]
    assert (alone.feasible, alone.situation) == (["a"], Situation("alone", 0, 1))
    after = explain_after_run(make, ["default/first"])["default/first"]
    assert (after.feasible, after.situation) == (["a"], Situation("after-run", 0, 1, "a"))
    assert make().ask.explain("default/late").situation == Situation("now")


def test_a_pod_that_comes_again_is_explained_as_it_was_when_it_came_last() -> None:
    """It waits for one that comes after it; then it is tried once more."""
    pods = [pod("p", priority=9, **next_to("x")), pod("q", labels={"app": "x"})]
    cluster = Cluster(nodes=[node("a", "z1"), node("b", "z2")], pods=pods)
    result = Scheduler(cluster).run()
    seen = explain_in_turn(lambda: Scheduler(cluster), ["default/p"])["default/p"]
    assert seen.feasible == [result.placements["default/q"]] == [result.placements["default/p"]]


@pytest.mark.parametrize("seed", range(4 if NIGHTLY else 1))
def test_pods_that_are_explained_together_are_explained_as_by_themselves(seed: int) -> None:
    pods = random_pods(Random(seed))
    cluster = Cluster(nodes=[node(f"n{at}", f"z{at % 2}") for at in range(3)], pods=pods)
    keys = [one.key for one in pods[4:]]
    for explain in (explain_in_turn, explain_alone, explain_after_run):
        together = explain(lambda: Scheduler(cluster), keys)
        assert list(together) == keys
        for key in keys:
            alone = explain(lambda: Scheduler(cluster), [key])[key]
            assert document(together[key]) == document(alone)


def test_a_pod_that_is_not_there_before_a_run_is_refused() -> None:
    def make() -> Scheduler:
        return Scheduler(Cluster(nodes=[node("a")], pods=[pod("p")]))

    with pytest.raises(InputError) as caught:
        explain_alone(make, ["default/p", "default/y", "default/x"])
    assert (
        str(caught.value)
        == "default/x: there is no such pod before the run: controllers make it during the run"
    )
