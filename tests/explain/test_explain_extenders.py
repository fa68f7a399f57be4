"""Explanations say what extenders answer, and rank nodes as a run with them does."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explain.explain_world import document
from tests.extenders.extended import of, only, scheduler, scores
from tests.extenders.extender_server import ExtenderServer, HangUp
from tests.make import node, pod

BUSY = [node("idle"), node("busy", memory="64Gi")]


def test_what_an_extender_rejects_is_a_verdict() -> None:
    answer = {"NodeNames": ["b"], "FailedNodes": {"a": "no gpu"}}
    with ExtenderServer(filter=answer) as server:
        seen = scheduler(of(server.url, "filter")).ask.explain(pod("p"))
    assert seen.feasible == ["b"]
    reasons = {
        group.nodes[0]: [(status.plugin, status.reasons) for status in group.verdicts]
        for group in seen.groups
    }
    assert reasons == {
        "a": [(server.url, ("no gpu",))],
        "c": [(server.url, ("the extender gives no reason",))],
    }
    texts = [answer.text for answer in seen.extenders]
    assert texts == [
        f"extender {server.url} accepts 1 of 3 nodes; 1 rejected: no gpu; 1 rejected: the extender gives no "
        "reason; preemption does not ask it"
    ]
    (made,) = document(seen)["extenders"]
    assert (made["asked"], made["rejected"], made["error"]) == (3, 2, "")


def test_nothing_that_the_filters_see_would_help_where_extenders_reject_all() -> None:
    with ExtenderServer(filter=only()) as server:
        one = scheduler(of(server.url, "filter"), pods=[pod("p")])
        seen = one.ask.explain("default/p")
        message = one.run().unschedulable["default/p"].message
    assert (seen.feasible, seen.changes, seen.conflicts, seen.preemption) == ([], [], [], None)
    assert message.startswith(seen.message)
    assert seen.message.startswith("0/3 nodes are available:")


@pytest.mark.parametrize("as_names", [True, False])
def test_the_ranking_is_that_of_a_run(as_names: bool) -> None:
    """With whole nodes, a node counts as empty."""
    there = [pod("t", on="busy", requests={"cpu": 3})]
    nodes: dict[str, Any] = {}

    def whole(message: Any) -> Any:
        return {"Nodes": message["Nodes"], "NodeNames": message.get("NodeNames")}

    verbs: dict[str, Any] = {"filter": only("idle", "busy") if as_names else whole}
    with ExtenderServer(**verbs, prioritize=scores(busy=1)) as server:
        config = of(server.url, "filter", "prioritize", weight=3, nodeCacheCapable=as_names)
        one = scheduler(config, nodes=BUSY, pods=[*there, pod("p", requests={"cpu": "500m"})])
        seen = one.ask.explain("default/p")
        nodes = one.run().placements
    assert seen.ranking(1)[0].node == nodes["default/p"]
    (answer,) = seen.extenders
    assert answer.as_empty is not as_names
    assert seen.weights[server.url] == 30
    assert [each.normalized[server.url] for each in seen.ranking() if each.node == "busy"] == [1]


def test_an_extender_without_an_answer_is_named_and_left_out() -> None:
    with ExtenderServer(filter=HangUp()) as server:
        seen = scheduler(of(server.url, "filter")).ask.explain(pod("p"))
    (answer,) = seen.extenders
    assert answer.text.startswith(f"without extender {server.url}: ")
    assert answer.text.endswith("; verdicts and ranking ignore it; preemption does not ask it")
    assert seen.feasible == ["a", "b", "c"]


def test_no_node_is_left_for_an_extender() -> None:
    with ExtenderServer(filter=only("a")) as server:
        seen = scheduler(of(server.url, "filter")).ask.explain(pod("p", requests={"cpu": 99}))
    assert [answer.text for answer in seen.extenders] == [
        f"extender {server.url} is not asked: no node is left for it"
    ]
    assert server.verbs == []
    assert seen.changes
