"""Extenders around the search: whose pods they hear of, how they bind, and their part in preemption."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.extenders.extended import ABC, GPU, decide, of, only, scheduler, scores, why
from tests.extenders.extender_server import Answer, ExtenderServer, Reply
from tests.make import configuration, node, pod

from moorage import Scheduler, default_profile
from moorage.cli import main
from moorage.engine.scheduler import Decision
from moorage.kube import Cluster, Pod

# ---- the nominated node


def test_the_nominated_node_is_put_to_the_extenders_first() -> None:
    with ExtenderServer(filter=only("b", "c"), prioritize=scores(c=10)) as server:
        decision = decide(scheduler(of(server.url, "filter", "prioritize")), pod("p", nominated="b"))
    assert [(request.verb, request.message["NodeNames"]) for request in server.requests] == [
        ("filter", ["b"])
    ]
    assert (decision.node, decision.next, decision.evaluated) == ("b", 0, 1)
    assert decision.feasible.tolist() == [1]


@pytest.mark.parametrize(
    ("first", "counted"),
    [
        ({}, 0),
        ({"Error": "broken"}, 0),
        ({"FailedNodes": {"b": "no"}}, 1),  # found again afterwards, and counted with that
        ({"FailedNodes": {"b": "no", "gone": "no"}}, 2),
        ({"FailedNodes": {"d": "no"}}, 0),  # what the search rejects has its status already
    ],
)
def test_a_nominated_node_that_extenders_reject(first: Any, counted: int) -> None:
    replies = [first, {"NodeNames": ["c"]}]
    with ExtenderServer(filter=lambda _: replies.pop(0)) as server:
        one = scheduler(of(server.url, "filter"), nodes=[*ABC, node("d", cpu=1)])
        decision = decide(one, pod("p", nominated="b", requests={"cpu": 2}))
    assert [request.message["NodeNames"] for request in server.requests] == [["b"], ["a", "b", "c"]]
    assert (decision.node, decision.evaluated, decision.next) == ("c", 2 + counted, counted % 4)


def test_what_an_extender_says_of_others_beside_the_nominated_node_is_counted() -> None:
    reply = {"NodeNames": ["b"], "FailedNodes": {"a": "no", "c": "no"}}
    with ExtenderServer(filter=lambda _: reply) as server:
        decision = decide(scheduler(of(server.url, "filter")), pod("p", nominated="b"))
    assert (decision.node, decision.evaluated) == ("b", 3)


def test_a_nominated_node_that_filters_reject() -> None:
    with ExtenderServer(filter=only("c")) as server:
        one = scheduler(of(server.url, "filter"), nodes=[*ABC, node("d", cpu=1)])
        decision = decide(one, pod("p", nominated="d", requests={"cpu": 2}))
    assert [request.message["NodeNames"] for request in server.requests] == [["a", "b", "c"]]
    assert (decision.node, decision.evaluated, decision.next) == ("c", 2, 0)


def test_what_is_said_of_others_with_the_nominated_node_counts() -> None:
    with ExtenderServer(filter={"NodeNames": ["b"], "FailedNodes": {"a": "no", "gone": "no"}}) as server:
        decision = decide(scheduler(of(server.url, "filter")), pod("p", nominated="b"))
    assert (decision.node, decision.evaluated, decision.next) == ("b", 3, 0)


def test_why_a_nominated_pod_fits_nowhere() -> None:
    with ExtenderServer(filter={"FailedNodes": {"b": "no"}}) as server:
        decision = decide(scheduler(of(server.url, "filter"), nodes=ABC[:2]), pod("p", nominated="b"))
    assert why(decision) == "0/2 nodes are available: 1 no."
    assert len(server.requests) == 2


# ---- who is asked


def test_pods_that_no_extender_wants_go_the_fast_way() -> None:
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    with ExtenderServer(filter=only("b")) as server:
        one = scheduler(of(server.url, "filter", managedResources=managed))
        pods = [pod(f"p{at}", requests={GPU: 1} if at in (2, 3) else {}) for at in range(6)]
        for each in pods:
            one.client.create(each)
        one.sync()
        result = one.schedule_pods(pods)
        assert server.verbs == ["filter", "filter"]
        assert [one.table.row_name(row) for row in result.rows.tolist()][2:4] == ["b", "b"]
        assert result.failures == {}
        bound = [one.client.get(Pod, each.name, "default").spec.node_name for each in pods]
        assert bound == ["", "", "b", "b", "", ""]
        one.informers.run_once()
        template = pod("t-", requests={GPU: 1})
        template = replace(template, metadata=replace(template.metadata, name="", generate_name="t-"))
        run = one.schedule_by_template(template, 2)
        assert [one.table.row_name(row) for row in run.rows.tolist()] == ["b", "b"]
    assert len(server.requests) == 4


def test_a_resource_that_the_extender_keeps_count_of() -> None:
    """I.26: NodeResourcesFit does not look at it."""
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    asking = pod("p", requests={GPU: 1})
    with ExtenderServer(filter=only("b")) as server:
        assert decide(scheduler(of(server.url, "filter", managedResources=managed)), asking).node == "b"
        counted = scheduler(of(server.url, "filter", managedResources=[{"name": GPU}]))
        assert why(decide(counted, asking)) == f"0/3 nodes are available: 3 Insufficient {GPU}."


def test_extenders_are_asked_by_explanations_and_not_by_the_evaluation_of_filters() -> None:
    with ExtenderServer(filter=only("b")) as server:
        one = scheduler(of(server.url, "filter"))
        assert one.examine(pod("p")).feasible == ["a", "b", "c"]
        assert server.requests == []
        assert one.ask.explain(pod("p")).examination.feasible == ["b"]
    assert [one.verb for one in server.requests] == ["filter"]


# ---- Bind


def binding(*extenders: dict[str, Any]) -> tuple[Scheduler, Any]:
    one = scheduler(*extenders, pods=[pod("p", requests={"cpu": 10})])
    return one, one.run()


def test_the_extender_binds() -> None:
    with ExtenderServer(bind={}) as server:
        one, result = binding(of(server.url, "bind"))
    assert result.placements == {"default/p": "c"}
    expected = {"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "c"}
    assert [request.message for request in server.requests] == [expected]
    assert one.client.get(Pod, "p", "default").spec.node_name == "c"  # it cannot write to this store
    assert not one.cache.is_assumed_pod(one.client.get(Pod, "p", "default"))


def test_an_extender_that_has_bound_in_this_store() -> None:
    def bind(message: Any) -> Any:
        one.client.bind(one.client.get(Pod, "p", "default"), message["Node"])
        return {}

    with ExtenderServer(bind=bind) as server:
        one = scheduler(of(server.url, "bind"), pods=[pod("p")])
        assert set(one.run().placements) == {"default/p"}


@pytest.mark.parametrize("reply", [{"Error": "refused"}, Answer(status=500)])
def test_a_binding_that_fails(reply: Reply) -> None:
    with ExtenderServer(bind=reply) as server:
        one, result = binding(of(server.url, "bind"))
    text = (
        "refused"
        if isinstance(reply, dict)
        else f"failed bind with extender at URL {server.url}/bind, code 500"
    )
    assert result.unschedulable["default/p"].message == text
    assert one.cache.state.table.requested["cpu"].tolist() == [0, 0, 0]
    assert one.client.get(Pod, "p", "default").spec.node_name == ""


def test_a_binding_that_may_fail_is_left_to_the_plugins(caplog: pytest.LogCaptureFixture) -> None:
    with ExtenderServer(bind={"Error": "refused"}) as server, caplog.at_level(logging.INFO):
        one, result = binding(of(server.url, "bind", ignorable=True))
    assert result.placements == {"default/p": "c"}
    assert one.client.get(Pod, "p", "default").spec.node_name == "c"
    assert any("Skipping extender in bind" in message for message in caplog.messages)


def test_an_extender_binds_only_what_it_wants() -> None:
    with ExtenderServer(bind={}) as server:
        binding(of(server.url, "bind", managedResources=[{"name": GPU}]))
    assert server.requests == []


# ---- preemption


def crowded(server: ExtenderServer, **fields: Any) -> tuple[Scheduler, Decision]:
    """Nodes that are full of two pods of low priority each, and one that is wanted more."""
    there = [pod(f"{name}{at}", on=name, requests={"cpu": 2}, priority=at) for name in "ab" for at in (1, 2)]
    nodes = [node("a", cpu=4), node("b", cpu=4)]
    one = scheduler(of(server.url, "preempt", **fields), nodes=nodes, pods=there)
    return one, decide(one, pod("p", requests={"cpu": 2}, priority=9))


def test_the_extender_has_the_last_word_on_victims() -> None:
    with ExtenderServer(preempt={"NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "b2"}]}}}) as server:
        one, decision = crowded(server)
    (request,) = server.requests
    offered = {name: {"Pods": [{"UID": f"{name}1"}], "NumPDBViolations": 0} for name in "ab"}
    assert request.message["NodeNameToMetaVictims"] == offered
    assert decision.nominating is not None
    assert decision.nominating.nominated_node_name == "b"
    assert sorted(known.name for known in one.client.list(Pod)[0]) == ["a1", "a2", "b1", "p"]


def test_preemption_that_the_extender_fails() -> None:
    with ExtenderServer(preempt={"NodeNameToMetaVictims": {"x": {}}}) as server:
        _, decision = crowded(server)
    assert decision.nominating is None
    assert 'nodeinfo not found for node name "x"' in decision.fit_error


def test_what_an_extender_rejects_for_now_may_be_preempted() -> None:
    """Not what it rejects for good, nor what it passes over in silence."""
    rejects = {"FailedNodes": {"a": "full"}, "FailedAndUnresolvableNodes": {"b": "never"}}
    with ExtenderServer(filter=rejects) as server:
        decision = decide(scheduler(of(server.url, "filter")), pod("p", priority=9))
    assert decision.diagnosis is not None
    assert decision.diagnosis.potential == 1


# ---- the command line


def test_simulate_asks_the_extenders_of_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With whole nodes on the wire, as by default."""

    def filter(message: Any) -> Any:
        items = [one for one in message["Nodes"]["items"] if one["metadata"]["name"] != "c"]
        return {"Nodes": {"items": items}, "FailedNodes": {"c": "too good"}}

    manifests = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}
        for name, cpu in (("a", "2"), ("b", "4"), ("c", "8"))
    ]
    requests = {"p": "3", "q": "6"}
    manifests += [
        {
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        }
        for name, cpu in requests.items()
    ]
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": manifests}))
    with ExtenderServer(**{"scheduler/filter": filter}) as server:
        extender = {"urlPrefix": f"{server.url}/scheduler", "filterVerb": "filter", "httpTimeout": "3s"}
        (tmp_path / "config.yaml").write_text(json.dumps(configuration(extenders=[extender])))
        arguments = [
            "-f",
            str(tmp_path / "all.json"),
            "--config",
            str(tmp_path / "config.yaml"),
            "-o",
            "json",
        ]
        assert main(["simulate", *arguments]) == 0
    rows = {row["pod"]: row for row in json.loads(capsys.readouterr().out)["pods"]}
    assert rows["p"]["node"] == "b"
    assert rows["q"]["reason"].startswith("0/3 nodes are available: 1 too good, 2 Insufficient cpu.")


def test_the_default_profile_has_no_extenders() -> None:
    one = Scheduler(Cluster(nodes=ABC), profile=default_profile())
    assert list(one.handle.extenders) == []
    assert not one.placer.decider.has_extenders
