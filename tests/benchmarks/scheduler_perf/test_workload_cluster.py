"""Nodes and other objects of a workload: names, labels, the order in which the scheduler hears of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.scheduler_perf.make import NODE, nodes, pods, run_ops

from moorage.errors import InputError
from moorage.kube import Node, Service

ZONE = "topology.kubernetes.io/zone"


def made(directory: Path, *ops: dict[str, Any], **settings: Any) -> list[Node]:
    """The nodes after these operations, by name."""
    return run_ops(directory, *ops, **settings).scheduler.client.list(Node)[0]


def test_names_are_made_up_the_same_each_time(tmp_path: Path) -> None:
    first = made(tmp_path, nodes(20), nodes(3, nodeTemplatePath="node.yaml"))
    again = made(tmp_path, nodes(20), nodes(3, nodeTemplatePath="node.yaml"))
    assert [node.name for node in first] == [node.name for node in again]
    assert len({node.name for node in first}) == 23
    assert all(re.fullmatch("(scheduler-perf-|node-)[a-z0-9]{5}", node.name) for node in first)


def test_nodes_are_as_the_api_server_keeps_them(tmp_path: Path) -> None:
    for node in made(tmp_path, nodes(2), nodes(1, nodeTemplatePath="node.yaml")):
        assert node.metadata.labels == {"kubernetes.io/hostname": node.name}
        assert node.status.allocatable == {"pods": "110", "cpu": "4", "memory": "32Gi"}


def test_a_template_may_name_its_node(tmp_path: Path) -> None:
    named = {"named.yaml": NODE.replace("generateName: node-", "name: 'n{{.Index}}-of-{{.Count}}'")}
    op = nodes(3, nodeTemplatePath="named.yaml")
    assert [node.name for node in made(tmp_path, op, files=named)] == ["n0-of-3", "n1-of-3", "n2-of-3"]
    with pytest.raises(InputError, match='Node n0-of-3: nodes "n0-of-3" already exists'):
        made(tmp_path, op, op, files=named)


def test_label_values_go_round_in_the_order_of_names(tmp_path: Path) -> None:
    strategy = {"labelKey": ZONE, "labelValues": ["a", "b", "c"]}
    found = made(
        tmp_path, nodes(2, nodeTemplatePath="node.yaml"), nodes(7, labelNodePrepareStrategy=strategy)
    )
    labelled = [node for node in found if node.name.startswith("scheduler-perf-")]
    assert [node.metadata.labels[ZONE] for node in labelled] == ["a", "b", "c", "a", "b", "c", "a"]
    assert all(node.metadata.labels["kubernetes.io/hostname"] == node.name for node in labelled)
    assert not any(ZONE in node.metadata.labels for node in found if node not in labelled)


def test_the_scheduler_lists_nodes_zone_by_zone(tmp_path: Path) -> None:
    strategy = {"labelKey": ZONE, "labelValues": ["a", "b"]}
    run = run_ops(tmp_path, nodes(4, labelNodePrepareStrategy=strategy))
    zones = {each.name: each.metadata.labels[ZONE] for each in run.scheduler.client.list(Node)[0]}
    assert [zones[name] for name in run.scheduler.context.view_order()] == ["a", "b", "a", "b"]


def test_nodes_have_unique_labels_and_given_amounts(tmp_path: Path) -> None:
    unique = made(tmp_path, nodes(5, uniqueNodeLabelStrategy={"labelKey": "id"}))
    assert len({node.metadata.labels["id"] for node in unique}) == 5
    amounts = {"nodeAllocatable": {"example.com/gpu": "2", "cpu": "3"}}
    for node in made(tmp_path, nodes(2, nodeAllocatableStrategy=amounts)):
        assert node.status.allocatable == {
            "pods": "110",
            "cpu": "3",
            "memory": "32Gi",
            "example.com/gpu": "2",
        }


def test_field_names_are_taken_as_go_takes_them(tmp_path: Path) -> None:
    text = NODE.replace("capacity", "Capacity")
    (node,) = made(tmp_path, nodes(1, nodeTemplatePath="odd.yaml"), files={"odd.yaml": text})
    assert node.status.capacity == {"pods": "110", "cpu": "4", "memory": "32Gi"}


def test_namespaces_have_the_labels_of_their_template(tmp_path: Path) -> None:
    labelled = {"namespace.yaml": "kind: Namespace\nmetadata: {labels: {team: devops}}\n"}
    run = run_ops(
        tmp_path,
        nodes(1),
        {"opcode": "createNamespaces", "prefix": "a", "count": 2, "namespaceTemplatePath": "namespace.yaml"},
        {"opcode": "createNamespaces", "prefix": "b", "count": 1},
        pods(1),
        pods(1, namespace="a-1"),
        files=labelled,
    )
    namespaces, _ = run.scheduler.client.list("Namespace")
    assert {one.name: one.metadata.labels.get("team") for one in namespaces} == {
        "a-0": "devops",
        "a-1": "devops",
        "b-0": None,
        "namespace-3": None,
    }


def test_any_object_that_scheduling_reads(tmp_path: Path) -> None:
    text = "kind: Service\nmetadata: {name: 's{{.Index}}'}\nspec: {selector: {app: '{{.app}}'}}"
    files = {"service.yaml": text}
    op = {"opcode": "createAny", "templatePath": "service.yaml", "namespace": "n", "count": 2}
    run = run_ops(tmp_path, op | {"templateParams": {"app": "web"}}, files=files)
    services, _ = run.scheduler.client.list(Service)
    assert [one.key for one in services] == ["n/s0", "n/s1"]
    assert services[0].spec.selector == {"app": "web"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "bad.yaml: not one object"),
        ("a: 1\n---\nb: 2", "bad.yaml: not one object"),
        ("kind: Pod", "bad.yaml: kind: a Pod, not a Node"),
        ("kind: Node", "bad.yaml: Node: metadata.name: Required value: name or generateName is required"),
        ("kind: Node\nmetadata: {name: 3}", "bad.yaml: metadata.name: expected string, got integer"),
        (NODE.replace('"4"', "x"), "bad.yaml: Node: status.capacity[cpu]"),
        ("{{.gone}}", "bad.yaml:1: {{.gone}} has no value"),
    ],
)
def test_templates_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        run_ops(tmp_path, nodes(1, nodeTemplatePath="bad.yaml"), files={"bad.yaml": text})
    shown = str(refused.value).replace(f"{tmp_path}/", "")
    assert "\n" not in shown
    source, _, rest = message.partition(": ")
    assert shown.startswith(source)
    assert rest in shown
