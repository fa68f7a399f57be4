"""Nodes are replaced, one or some at a time, with new ones first."""

from __future__ import annotations

import pytest
from tests.make import make, node, scheduler, workload

from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Node, Pod

NODES = [node(name, labels={"pool": "x"}) for name in "ab"]


def running(budget: int | None = None) -> Scheduler:
    """Two nodes of 4 cpu, which four replicas of 2 cpu fill."""
    spec = {"minAvailable": budget, "selector": {"matchLabels": {"app": "web"}}}
    budgets = [] if budget is None else [make("PodDisruptionBudget", "default/web", spec)]
    one = scheduler(NODES, workload("Deployment", "web", 4, {"cpu": 2}), budgets)
    assert len(one.run().placements) == 4
    return one


def names(scheduler: Scheduler) -> list[str]:
    return sorted(one.name for one in scheduler.client.list(Node)[0])


@pytest.mark.parametrize("surge", [0, 1, 2])
def test_nodes_are_replaced_by_as_many(surge: int) -> None:
    one = running()
    made = one.change.upgrade_nodes("pool=x", surge)
    assert names(one) == ["a-1", "b-1"]
    assert [text for text in made.created if text.startswith("Node ")] == ["Node a-1", "Node b-1"]
    assert [text for text in made.deleted if text.startswith("Node ")] == ["Node a", "Node b"]
    assert made.kept == {}
    one.run()
    on = sorted(pod.spec.node_name for pod in one.client.list(Pod)[0])
    assert on == ["a-1", "a-1", "b-1", "b-1"]


def test_evictions_that_a_budget_refuses_are_tried_again() -> None:
    one = running(3)
    assert one.change.upgrade_nodes("pool=x").kept == {}
    assert names(one) == ["a-1", "b-1"]


def test_a_budget_counts_the_pods_that_a_new_node_has_taken() -> None:
    one = running(4)
    one.change.apply(
        workload("Deployment", "web", 5, {"cpu": 2})
    )  # the fifth waits until a new node is there
    assert one.change.upgrade_nodes("pool=x").kept == {}
    assert names(one) == ["a-1", "b-1"]


def test_an_upgrade_ends_at_a_node_whose_pods_stay() -> None:
    one = running(4)
    made = one.change.upgrade_nodes(["a", "b"])
    assert names(one) == ["a", "a-1", "b"]
    assert made.kept["Node b"] == "not reached, as 2 pods stay on a"
    stay = [why for key, why in made.kept.items() if key.startswith("Pod ")]
    assert len(stay) == 2
    assert all("disruption budget web needs 4 healthy pods" in why for why in stay)


@pytest.mark.parametrize(
    ("surge", "unavailable", "stays"), [(0, 1, False), (1, 1, False), (0, 2, True), (0, 3, True)]
)
def test_surge_and_unavailable_nodes_are_drained_together(surge: int, unavailable: int, stays: bool) -> None:
    """Two of three nodes have room for all pods, so two may be drained at the same time after a new one."""
    budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    web = workload("Deployment", "web", 4, {"cpu": 2})
    nodes = [node(name, labels={"pool": "x"}) for name in "abc"]
    one = scheduler(nodes, web, make("PodDisruptionBudget", "default/web", budget))
    one.run()
    change = one.change.upgrade_nodes("pool=x", surge, unavailable)
    assert any(key.startswith("Pod ") for key in change.kept) is stays
    if not stays:
        assert names(one) == ["a-1", "b-1", "c-1"]
    elif unavailable == 2:
        assert change.kept["Node c"] == "not reached, as 1 pod stays on a or b"


def test_no_more_nodes_come_first_than_are_replaced() -> None:
    one = running()
    with pytest.raises(InputError, match="surge: must be between 0 and 2, the number of nodes, not 3"):
        one.change.upgrade_nodes("pool=x", 3)
    with pytest.raises(
        InputError, match="max-unavailable: must be between 0 and 2, the number of nodes, not 3"
    ):
        one.change.upgrade_nodes("pool=x", 0, 3)
    with pytest.raises(InputError, match="give surge or max-unavailable"):
        one.change.upgrade_nodes("pool=x", 0, 0)
    assert names(one) == ["a", "b"]
