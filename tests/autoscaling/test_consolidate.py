"""Which nodes Karpenter removes, with kube-scheduler placing the pods."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage import Scheduler, load
from moorage.autoscalers import AutoscalerSettings, Consolidation, read_instance_types
from moorage.cli import main
from moorage.errors import InputError
from moorage.kube import Node, decode_object
from tests.doors.autoscalers import PoolScaler, next_hit, removal_verdict
from tests.doors.kube import seconds
from tests.house.source import ROOT

EXAMPLE = ROOT / "examples/karpenter/underused/cluster.yaml"
TYPES = ROOT / "examples/karpenter/instance_types.yaml"


def items() -> list[Any]:
    return [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one]


def answer(objects: list[Any], **how: Any) -> Consolidation:
    scheduler = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": objects}))
    before: list[Node] = scheduler.client.list(Node)[0]
    found = scheduler.ask.consolidate(read_instance_types(TYPES), **how)
    assert before == scheduler.client.list(Node)[0]
    return found


def test_nodes_go_and_the_others_say_why_not() -> None:
    found = answer(items())
    (step,) = found.steps
    assert (step.decision, step.nodes, step.moved, step.waiting) == ("delete", ("node-b", "node-c"), 4, ())
    assert sorted(step.placed.values()) == ["node-a", "node-a", "node-d", "node-d"]
    assert (str(found.before), str(found.after)) == ("4 nodes at 0.82 $/h", "2 nodes at 0.41 $/h")
    assert found.least == pytest.approx(0.283, abs=0.001)
    annotation, cheaper = (stay.message for stay in found.stays)
    assert annotation == 'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
    assert cheaper == "Can't replace with a cheaper node"
    assert found.notes[0] == "4 nodes of NodePools have no NodeClaim; each is taken to have one."


def test_what_karpenter_would_not_find_in_time_is_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubts() -> list[str]:
        return [note for note in answer(items()).notes if "not certain" in note]

    assert doubts() == []
    monkeypatch.setattr("moorage.autoscalers.karpenter.disrupt.SECONDS_A_NODE", 20.0)
    assert doubts() == [
        "Command 1 and its saving are not certain: Karpenter would look for it for some 80 s, and ends after "
        "60 s with what it has."
    ]


def test_types_of_another_region_are_told() -> None:
    objects = [*items()]
    for node in objects[1:5]:
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "eu-west-1a"
    told = "The instance types are offered in us-west-2a alone; the nodes are in eu-west-1a."
    assert told in answer(objects).notes
    assert told not in answer(items()).notes


def test_a_budget_with_a_schedule_holds_at_its_time_alone() -> None:
    objects = items()
    disruption = objects[0]["spec"]["disruption"]
    disruption["budgets"] = [{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]
    at_work = answer(objects, at="2026-06-01T12:00:00Z")
    assert not at_work.steps
    stays = {stay.node: stay.message for stay in at_work.stays}
    message = "the budgets of NodePool general allow no disruption for Underutilized now"
    assert stays["node-b"] == fate(objects, "node-b", "2026-06-01T12:00:00Z").message == message
    assert answer(objects, at="2026-06-01T18:00:00Z", once=True).steps


def test_pods_without_a_controller_are_lost() -> None:
    objects = items()
    spec = objects[-1]["spec"]["template"]["spec"]
    objects[-1] = {"kind": "Pod", "metadata": {"name": "alone"}, "spec": spec | {"nodeName": "node-b"}}
    lost = [pod for step in answer(objects).steps for pod in step.lost]
    assert lost == ["default/alone"]


def fate(objects: list[Any], name: str, at: str | None = None) -> Any:
    scheduler = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": objects}))
    scheduler.run()
    return removal_verdict(scheduler, AutoscalerSettings(read_instance_types(TYPES)), name, at)


def test_what_is_saved_is_unknown_without_prices() -> None:
    objects = items()
    objects[0]["spec"]["template"]["spec"]["nodeClassRef"] = {"group": "a.io", "kind": "Class", "name": "a"}
    for node in objects[1:5]:
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "large"  # AWS lists no such type
    scheduler = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": objects}))
    (step,) = scheduler.ask.consolidate().steps
    assert step.saved is None
    assert scheduler.ask.consolidate().table().to_dict()["saved"] == ["unknown"]
    scheduler.run()
    found = removal_verdict(scheduler, AutoscalerSettings(), "node-b")
    assert (found.decision, found.saved) == ("delete", None)
    assert [len(pods) for pods in found.moves.values()] == [2]


def test_what_frees_a_node_is_tried() -> None:
    objects = items()
    disruption = objects[0]["spec"]["disruption"]
    disruption["budgets"] = [{"nodes": "0", "reasons": ["Underutilized"]}]
    disruption["consolidationPolicy"] = "WhenEmpty"
    found = fate(objects, "node-a")
    assert (found.decision, found.freed) == ("", "delete")
    assert found.changes == (
        "remove the annotation karpenter.sh/do-not-disrupt of the node",
        "consolidationPolicy of NodePool general is WhenEmptyOrUnderutilized",
        "the budgets of NodePool general allow a node",
    )
    assert fate(items(), "node-b").decision == "delete"


def test_a_disruption_budget_and_a_pod_that_is_in_the_way_are_named() -> None:
    objects = items()
    guard = {"kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "apiVersion": "policy/v1"}
    guard["spec"] = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}  # type: ignore[assignment]
    spec = objects[-1]["spec"]["template"]["spec"]
    big = [{"name": "c", "image": "x", "resources": {"requests": {"memory": "14Gi"}}}]
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"big-{at}"},
            "spec": spec | {"containers": big, "nodeName": node},
        }
        for at, node in enumerate(("node-b", "node-c", "node-d"))
    ]
    assert fate([*objects, guard], "node-b").changes == (
        "PodDisruptionBudget default/web allows a disruption (more replicas, or another limit)",
    )
    objects[-1]["spec"]["replicas"] = 3
    in_the_way = ("pod default/big-0 moves elsewhere, or ends",)
    assert fate([objects[0], *objects[2:], *pods], "node-b").changes == in_the_way


def test_a_node_of_no_pool_is_none_of_karpenters() -> None:
    node = {"kind": "Node", "metadata": {"name": "own"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    assert fate([*items(), node], "own") is None


@pytest.mark.parametrize(
    ("schedule", "after", "until", "hits"),
    [
        ("@daily", "2026-06-01T23:59:59Z", "2026-06-02T00:00:00Z", True),
        ("@daily", "2026-06-02T00:00:00Z", "2026-06-02T23:59:59Z", False),
        ("*/15 8-10 * * *", "2026-06-01T10:31:00Z", "2026-06-01T10:44:59Z", False),
        ("*/15 8-10 * * *", "2026-06-01T10:31:00Z", "2026-06-01T10:45:00Z", True),
        ("0 0 13 * fri", "2026-06-11T12:00:00Z", "2026-06-12T01:00:00Z", True),  # a Friday, not the 13th
        ("0 0 13 * *", "2026-06-11T12:00:00Z", "2026-06-12T01:00:00Z", False),
        ("30 1 1 jan,jul ?", "2026-06-30T00:00:00Z", "2026-07-01T01:30:00Z", True),
    ],
)
def test_times_of_a_schedule(schedule: str, after: str, until: str, hits: bool) -> None:
    assert (next_hit(schedule, seconds(after), seconds(until)) < math.inf) is hits


@pytest.mark.parametrize(
    "schedule", ["* * * *", "61 * * * *", "* * * * someday", "*/0 * * * *", "5-2 * * * *"]
)
def test_a_malformed_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"expected exactly|of range|failed to parse int"):
        next_hit(schedule, 0, 1)


def test_a_wrong_time_and_a_cluster_without_pools_are_refused() -> None:
    one = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": []}))
    for at in ("monday", "2026-06-01T12:00:00"):
        with pytest.raises(InputError, match=f'at: must be a time like 2026-06-01T12:00:00Z, not "{at}"'):
            one.ask.consolidate(at=at)
    with pytest.raises(InputError, match="there is no NodePool"):
        one.ask.consolidate()


def test_a_node_that_comes_has_a_name_of_its_own() -> None:
    """Else an answer would say of one name that it goes and that it stays."""
    pool = next(one for one in items() if one["kind"] == "NodePool")
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    waiting = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    one = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": [pool, waiting]}))
    claims = one.ask.provision(types=read_instance_types(TYPES)).claims
    first, later = f"{claims[0].pool}-1", f"{claims[0].pool}-2"
    karpenter = PoolScaler(one, AutoscalerSettings())
    for name in (first, later):
        with one.transaction():
            assert [*karpenter.make(claims, 1)[0]] == [name]
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": first}}
    one.client.create(decode_object(claim))  # its node has another name, or has not come
    assert [*PoolScaler(one, AutoscalerSettings()).make(claims, 1)[0]] == [later]


def test_of_many_places_the_first_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool, _, node, *_, web = items()
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "1"}]
    web["spec"]["replicas"] = 16
    nodes = [node | {"metadata": node["metadata"] | {"name": f"node-{at}"}} for at in range(8)]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pool, *nodes, web]}))
    assert main(["plan", "consolidate", "-f", str(path), "--at", "noon"]) == 2
    assert capsys.readouterr().err.startswith("error: --at: must be a time like")
    assert main(["plan", "consolidate", "-f", str(path), "--instance-types", str(TYPES)]) == 0
    shown = capsys.readouterr().out
    rows = shown[shown.index("AFTER COMMAND") :].split("\n\n")[0].splitlines()[1:]
    assert len(rows) == 9
    assert re.fullmatch(r"… and \d+ more +see -o json", rows[-1])
    assert re.search(r"^general-1(, node-\d)+ +Can't replace with a cheaper node$", shown, re.M)
