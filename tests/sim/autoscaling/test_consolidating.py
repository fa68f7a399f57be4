"""Nodes are consolidated by the rules of Karpenter."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.objects import Cluster, Pod
from moorage.sim.autoscaling.consolidating import eviction_cost
from moorage.sim.timeline import Timeline
from tests.sim.autoscaling.made import deployment, group, held, member, pod, scalings, steps, timeline

GROUPS = [
    group("large", "8", "32Gi", price=1.5),
    group("small", price=1),
    group("micro", "2", "8Gi", price=0.5),
]
DISRUPT = "karpenter.sh/do-not-disrupt"
ALL = {"budgets": [{"nodes": "100%"}]}


def cluster(
    nodes: list[Any], *pods: Pod, groups: list[dict[str, Any]] | None = None, **rules: Any
) -> Timeline:
    found = Cluster(nodes=nodes, pods=list(pods))
    made = timeline(*(groups or GROUPS), cluster=found, consolidation=ALL | rules)
    made.measure(600, "end")
    return made


def members(count: int, group_name: str = "small", cpu: str = "4") -> list[Any]:
    return [member(f"n{at}", group_name, cpu) for at in range(count)]


def left(history: mo.History) -> list[str]:
    return sorted(history.scheduler.context.view_order())


def test_empty_nodes_leave_together_after_the_time() -> None:
    made = cluster(members(3), groups=[group()], consolidateAfter="30s")
    made.create(5, held("x", "n0"))
    made.delete(105, "pod/x")
    # A pod is seen at the scan after it has come or gone.
    assert steps(mo.replay(made)) == [(30, "remove", "small", 2), (140, "remove", "small", 1)]


@pytest.mark.parametrize(
    ("nodes", "reasons", "expected"),
    [
        ("34%", [], [2, 1, 1]),  # 34 % of 4 and of 2 are rounded up
        (1, ["Empty"], [1, 1, 1, 1]),
        (0, [], []),
        (1, ["Underutilized"], [4]),
    ],
)
def test_budgets_limit_how_many_nodes_go_at_once(
    nodes: str | int, reasons: list[str], expected: list[int]
) -> None:
    made = cluster(members(4), budgets=[{"nodes": nodes, "reasons": reasons}, {"nodes": "100%"}])
    assert [step[3] for step in steps(mo.replay(made))] == expected


def test_the_minimum_stays() -> None:
    made = cluster(members(4), groups=[group(minSize=3)])
    assert steps(mo.replay(made)) == [(0, "remove", "small", 1)]


def test_with_the_policy_for_empty_nodes_others_stay() -> None:
    made = cluster(members(2), held("a", "n0"), policy="WhenEmpty")
    assert left(mo.replay(made)) == ["n0"]


def test_several_nodes_leave_at_once_where_their_pods_have_a_place() -> None:
    pods = [held(f"p{at}", f"n{at}", "500m") for at in range(4)]
    history = mo.replay(cluster(members(4), *pods, groups=[group()]))
    assert steps(history)[0] == (0, "remove", "small", 3)
    assert scalings(history)[0][4] == "Underutilized"


def test_nodes_with_little_to_evict_leave_first() -> None:
    # Each pod fits on the other node; the second one costs less.
    first = held("a", "n0", "2", annotations={"controller.kubernetes.io/pod-deletion-cost": "1000000"})
    made = cluster(members(2), first, held("b", "n1", "2"), groups=[group()])
    assert left(mo.replay(made)) == ["n0"]


@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [("0", 0, 1.0), ("134217728", 0, 2.0), ("0", 33554432, 2.0), ("x", 0, 1.0), ("-2147483647", 0, -10.0)],
)
def test_the_cost_of_an_eviction(cost: str, priority: int, expected: float) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost}
    assert eviction_cost(pod("x", priority=priority, annotations=annotations)) == pytest.approx(
        expected, abs=1e-6
    )


def test_a_node_is_replaced_by_a_cheaper_one() -> None:
    made = cluster([member("n0", "large", "8")])
    made.create(0, deployment("web", 2))
    history = mo.replay(made)
    # The pods of 2 cpu fit on the cheapest node, which joins before the other one leaves.
    assert scalings(history)[:2] == [
        (0, "add", "micro", 1, "replaces 1"),
        (60, "remove", "large", 1, "Underutilized"),
    ]
    assert left(history) == ["micro-1"]
    assert history.summary()["pending"] == 0


def test_pods_do_not_come_to_nodes_that_are_replaced() -> None:
    made = cluster([member("n0", "large", "8")])
    made.create(0, deployment("web", 2))
    made.create(20, deployment("more", 1))
    history = mo.replay(made)
    tried = history.table().to_dict()
    names = [name for one, name in zip(tried["pod"], tried["node"], strict=True) if "more" in one]
    assert names
    assert "n0" not in names
    assert history.summary()["pending"] == 0


def test_nodes_are_replaced_by_one_that_is_cheaper_than_all_of_them() -> None:
    # Pods of 2.5 cpu: one large node costs less than two small ones, and takes three pods.
    pods = [held(f"p{at}", f"n{at}", "2500m") for at in range(3)]
    history = mo.replay(cluster(members(3), *pods, groups=[GROUPS[0], group("small", price=1)]))
    assert steps(history)[:2] == [(0, "add", "large", 1), (60, "remove", "small", 3)]
    # Not one of their own group where that is the cheapest: then one of them had better stay.
    fits = [held("p0", "n0", "1500m"), held("p1", "n1", "1500m"), held("f", "n2", "3500m")]
    history = mo.replay(cluster(members(3), *fits, groups=[GROUPS[0], group("small", price=1)]))
    assert steps(history)[0] == (0, "remove", "small", 1)
    # Not one that costs as much.
    same = [GROUPS[0] | {"price": 3.0}, group("small", price=1)]
    assert steps(mo.replay(cluster(members(3), *pods, groups=same))) == []
    # Nor without prices.
    assert steps(mo.replay(cluster(members(3), *pods, groups=[GROUPS[0], group("small")]))) == []


def test_a_node_is_not_replaced_by_one_of_its_price() -> None:
    same = [GROUPS[0], group("other", "8", "32Gi", price=1.5)]
    made = cluster([member("n0", "large", "8")], held("a", "n0"), groups=same)
    assert steps(mo.replay(made)) == []


def test_pods_and_nodes_that_must_not_be_disrupted() -> None:
    kept = held("a", "n0", annotations={DISRUPT: "true"}), held("b", "n1", "3500m")
    assert left(mo.replay(cluster(members(2), *kept, groups=[group()]))) == ["n0", "n1"]
    nodes = [member("n0", **{DISRUPT: "true"}), member("n1")]
    assert left(mo.replay(cluster(nodes, groups=[group()]))) == ["n0"]


def test_nodes_of_no_group_stay() -> None:
    nodes = [member("n0", "other"), *members(2)[1:]]
    assert left(mo.replay(cluster(nodes, groups=[group()]))) == ["n0"]


def test_time_travel_continues_replacements() -> None:
    made = cluster([member("n0", "large", "8")])
    made.create(0, deployment("web", 2))
    history = mo.replay(made)
    for time, nodes in ((0, ["n0"]), (59, ["n0"]), (60, ["micro-1"]), (600, ["micro-1"])):
        assert sorted(history.at(time).context.view_order()) == nodes
