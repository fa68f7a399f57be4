"""Explanations where plugins of one's own filter and score."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import node, pod

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, EvidencePlugin, Need, Status
from moorage.kube import Cluster, Node, Pod, Taint

SPOT = Taint(key="spot", effect="NoSchedule")


class Racked(mo.FilterPlugin, EvidencePlugin):
    """Only nodes in a rack, and not those of rack 13."""

    name = "Racked"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        rack = node_info.node.metadata.labels.get("rack")
        if rack == "13":
            raise RuntimeError("bad luck")
        return None if rack else Status(Code.UNSCHEDULABLE, ("not in a rack",))

    def evidence(self, inquiry: Any) -> Any:
        return lambda rows, status: [Need("rack", "of any kind", values={"racks": 0}, nodes=len(rows))]


def scheduler(*nodes: Node) -> Scheduler:
    profile = mo.Profile((*default_profile().plugins, Racked()))
    return Scheduler(Cluster(nodes=list(nodes)), profile=profile)


def test_each_filter_speaks_for_itself() -> None:
    one = scheduler(node("a", taints=[SPOT]), node("b"), node("c", labels={"rack": "1"}))
    seen = one.ask.explain(pod("p", requests={"cpu": 9}))
    assert [(group.nodes, [status.plugin for status in group.verdicts]) for group in seen.groups] == [
        (["c"], ["NodeResourcesFit"]),
        (["b"], ["NodeResourcesFit", "Racked"]),
        (["a"], ["TaintToleration", "NodeResourcesFit", "Racked"]),
    ]
    assert seen.node("b").verdicts["Racked"] == Status(Code.UNSCHEDULABLE, ("not in a rack",), "Racked")
    assert seen.node("c").verdicts["Racked"] is None


def test_a_plugin_says_what_it_compared() -> None:
    (group,) = scheduler(node("a"), node("b")).ask.explain(pod("p")).to_dict()["groups"]
    told = {"kind": "rack", "name": "of any kind", "nodes": 2, "text": "rack of any kind", "racks": 0}
    assert (group["needs"], group["blockers"]) == ([told], [])


def test_changes_are_confirmed_by_every_filter() -> None:
    one = scheduler(node("a", cpu=8), node("b", cpu=2, labels={"rack": "1"}))
    seen = one.ask.explain(pod("p", requests={"cpu": 4}))
    assert [(change.text, change.feasible_nodes) for change in seen.changes] == [
        ("lower the cpu request of container c from 4 to 2", 1)
    ]


def test_what_no_change_of_the_pod_can_help() -> None:
    seen = scheduler(node("a"), node("b")).ask.explain(pod("p"))
    assert (seen.changes, seen.conflicts) == ([], [])
    assert seen.blocked == "0/2 nodes are available: 2 not in a rack."


@pytest.mark.parametrize("cpu", [1, 9])
def test_a_filter_that_fails(cpu: int) -> None:
    unlucky = node("a", cpu=4, labels={"rack": "13"})
    seen = scheduler(unlucky, node("b", cpu=2, labels={"rack": "1"})).ask.explain(
        pod("p", requests={"cpu": cpu})
    )
    if cpu == 1:
        assert seen.message.endswith('plugin "Racked" raised RuntimeError: bad luck')
        assert (seen.feasible, seen.changes, seen.groups) == ([], [], [])
    else:
        assert seen.message == "0/2 nodes are available: 2 Insufficient cpu."
        assert [group.nodes for group in seen.groups] == [["a", "b"]]
        assert seen.changes == []
