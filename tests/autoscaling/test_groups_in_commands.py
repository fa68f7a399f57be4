"""Nodes that come in commands, where node groups of cluster-autoscaler are given."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import moorage.cli
from moorage import Scheduler, load
from moorage.autoscalers import GroupSettings, NodeGroup
from moorage.cli import main
from tests.make import written

from .test_provision import pod, pool
from .test_scale_up import four_cores

GROUPS = ["--node-groups", "examples/node-groups/groups.yaml"]
CLUSTER = ["-f", "tests/data/troubleshoot_bundle.json", "-f", "examples/node-groups/release.yaml"]
REFUSED = "cluster-autoscaler: pod didn't trigger scale-up: "


pytestmark = pytest.mark.usefixtures("in_the_repository")


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    labels = {"kubernetes.io/hostname": name} | labels
    return written(
        "v1/Node", {"name": name, "labels": labels}, status={"allocatable": room, "capacity": room}
    )


def test_the_document_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    buffer = written("autoscaling.x-k8s.io/v1beta1/CapacityBuffer", "b")
    path = tmp_path / "more.json"
    path.write_text(json.dumps(buffer))
    main(["check", *CLUSTER, "-f", str(path), "--group-sizes", "1:2:smallnode,0:3:nowhere", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(moorage.cli.__file__).parent / "schemas/check.v1.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    made = document["newNodes"]
    assert (made["karpenterVersion"], made["clusterAutoscalerVersion"]) == (None, "1.36.1")
    assert [one["name"] for one in made["nodes"]] == ["smallnode-1"]
    assert {one["refusedBy"] for one in made["waiting"]} == {"cluster-autoscaler"}
    assert made["notSimulated"] == ["CapacityBuffer.autoscaling.x-k8s.io"]
    assert main(["check", *CLUSTER, "-f", str(path), "--group-sizes", "0:3:nowhere"]) == 1
    out = capsys.readouterr().out
    assert "not simulated: CapacityBuffer.autoscaling.x-k8s.io\n" in out
    assert "node group nowhere: no node has a provider's label with its name, and it has no template" in out
    main(["explain", "node/smallnode-3i74t", *CLUSTER, "-f", str(path), "--group-sizes", "0:2:smallnode"])
    assert "not simulated: CapacityBuffer.autoscaling.x-k8s.io\n" in capsys.readouterr().out
    assert main(["check", *CLUSTER, "--group-sizes", "1:2:smallnode,0:3:smallnode"]) == 2
    assert "--group-sizes: gives node group smallnode two sizes\n" in capsys.readouterr().err


def test_a_plan_of_nodes_is_what_check_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "nodes", *CLUSTER, *GROUPS, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    main(["check", *CLUSTER, *GROUPS, "-o", "json"])
    made = json.loads(capsys.readouterr().out)["newNodes"]
    assert document["counts"] == dict(Counter(node["pool"] for node in made["nodes"]))
    assert document["pricePerHour"] == pytest.approx(made["pricePerHour"])
    assert document["makers"] == ["cluster-autoscaler 1.36.1, groups of groups.yaml"]


def test_replicas_of_a_further_file_are_counted_on_nodes_that_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["capacity", "--pod", "deploy/web", *CLUSTER, *GROUPS, "--autoscale"]) == 0
    assert capsys.readouterr().out.startswith("0 of default/web fit\n")


def test_groups_are_compared_with_pools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pool.json"
    path.write_text(json.dumps(pool()))
    types = ["--instance-types", "examples/karpenter/instance_types.yaml"]
    assert main(["compare", GROUPS[1], str(path), *CLUSTER]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{GROUPS[1]}: ") for line in lines)
    lacks = "NodePool default has no instance types: give them with --instance-types FILE"
    assert {f"{path}: no new node", f"{path}: {lacks}"} < {*lines}
    assert main(["compare", GROUPS[1], str(path), *CLUSTER, *types, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    groups, pools = (one["measures"] for one in document["alternatives"])
    assert (groups["new nodes"], groups["new nodes $/h"]) == (7, 0.8395)
    assert pools["new nodes"] == 7


def test_a_label_may_be_without_a_value() -> None:
    role = "node-role.kubernetes.io/worker"
    there = [node("worker", "1", **{role: ""}), node("other", "1")]
    groups = GroupSettings([NodeGroup("workers", max_size=2, label=f"{role}=")])
    answer = Scheduler(load([*there, pod("a"), pod("b"), pod("c")])).ask.scale_up(groups=groups)
    assert [one.name for one in answer.nodes] == ["workers-1"]


def test_both_autoscalers_decide_about_the_pods_that_they_accept() -> None:
    there = node("one", "1", pool="a")
    pods = [pod("web", "3"), pod("tied", "3", nodeSelector={"pool": "b"}), pod("huge", "9")]
    template = node("template", pool="b")
    scheduler = Scheduler(load([there, pool(), *pods]))
    answer = scheduler.ask.scale_up(
        four_cores(), groups=GroupSettings([NodeGroup("b", template, label="pool=b")])
    )
    assert sorted((one.by, one.pool) for one in answer.nodes) == [
        ("Karpenter", "default"),
        *[("cluster-autoscaler", "b")] * 2,
    ]
    assert answer.headline().startswith("Karpenter 1.15.0 and cluster-autoscaler 1.36.1: 3 new nodes")
    assert answer.doubled == ("default/web",)
    assert answer.remarks()[1].startswith("1 pod has new nodes of Karpenter and of cluster-autoscaler")
    (waits,) = answer.waiting
    assert (waits.pod, waits.refused_by) == ("default/huge", "Karpenter and cluster-autoscaler")
    assert waits.reason.endswith(f"; {REFUSED}1 Insufficient cpu")


def test_new_nodes_have_static_pods_and_no_pods_of_daemon_sets_twice() -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "1", "controller": True}
    mirror = pod("proxy-one", "1", nodeName="one")
    mirror["metadata"] |= {
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner],
    }
    agent = written(
        "apps/v1/DaemonSet",
        {"name": "agent", "namespace": "default"},
        {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod("x", "1")["spec"]},
        },
    )
    scheduler = Scheduler(
        load(
            [node("one", **{"eks.amazonaws.com/nodegroup": "g"}), mirror, agent, pod("a", "2"), pod("b", "2")]
        )
    )
    answer = scheduler.ask.scale_up(groups=GroupSettings([NodeGroup("g")]), keep=True)
    assert [one.pods for one in answer.nodes] == [("default/b",)]
    on = [one for one in scheduler.cache.state.pods() if one.spec.node_name == "g-1"]
    assert sorted(one.name.partition("-")[0] for one in on) == ["agent", "b", "proxy"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nodeGroups: [{name: a, maxSize: x}]", "nodeGroups[0].maxSize: Expected `int`"),
        ("nodeGroups: [{name: a, max: 3}]", "nodeGroups[0]: Object contains unknown field `max`"),
        ("nodeGroups: [{name: a, label: b}]", "node group a: nodeGroups[0].label: must be KEY=VALUE"),
        (
            "nodeGroups: [{name: a, template: b}]",
            'node group a: nodeGroups[0].template: there is no template "b"',
        ),
        ("nodeGroups: [{name: a, provisionTime: 2m}]", "node group a: provisionTime: is for replays"),
        ("[]", "Expected `object`"),
        ("", "is empty; it must have nodeGroups"),
        (
            "nodeGroups: [{name: a, template: {apiVersion: v1, kind: Node}}]",
            "nodeGroups[0].template.status: has no allocatable resources",
        ),
        ("nodeGroups: [{name: a, label: k=v}, {name: b, label: k=v}]", "2 node groups have the label k=v"),
    ],
)
def test_a_wrong_file_is_refused(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text(text)
    assert main(["check", *CLUSTER, "--node-groups", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: ")
    assert why in error


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["check", "--group-sizes", "1:a"], 'must be MIN:MAX:NAME, such as 0:10:web, not "1:a"'),
        (["check", *GROUPS, "--no-autoscale"], "--node-groups has no effect with --no-autoscale"),
        (["plan", "nodes", "--like", "biggernode-3i745", *GROUPS], "--node-groups has no effect with --like"),
        (
            ["capacity", "--pod", "deploy/kotsadm-operator", *GROUPS],
            "no effect with this question without --autoscale",
        ),
    ],
)
def test_options_without_an_effect_are_errors(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *CLUSTER]) == 2
    assert why in capsys.readouterr().err
