"""``moorage nodes``: the room on each node or pool, sorted, selected, and in each form."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import moorage.cli
from moorage.cli import main
from tests.cli.test_simulate import node, pod
from tests.house.source import ROOT

ITEMS = [
    node("a", "z1"),
    node("b", "z2"),
    node("c", "z1") | {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}},
    pod("p", nodeName="a"),
    pod("q", nodeName="a"),
    pod("r", nodeName="b"),
    pod("pending"),
]
HEAD = "NODE  PODS  CPU  USE  CPU FREE  MEMORY  USE  MEMORY FREE  LARGEST POD  CORDONED"


@pytest.fixture
def nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": ITEMS}))

    def run(*options: str) -> list[str]:
        assert main(["nodes", "-f", str(path), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_a_row_per_node_has_what_is_free_and_the_largest_pod(nodes: Callable[..., list[str]]) -> None:
    assert nodes() == [
        "3 nodes have 9 of 12 cpu and 21Gi of 24Gi memory free",
        "",
        HEAD,
        "a     2/2   4    50%  2         8Gi     25%  6Gi          none",
        "b     1/2   4    25%  3         8Gi     12%  7Gi          3 cpu, 7Gi",
        "c     0/2   4    0%   4         8Gi     0%   8Gi          none         yes",
        "",
    ]


def test_pools_have_the_sums_of_their_nodes(nodes: Callable[..., list[str]]) -> None:
    first, *rows = csv.reader(StringIO("\n".join(nodes("--by", "zone", "-o", "csv"))))
    table = [dict(zip(first, row, strict=True)) for row in rows]
    names = ("zone", "nodes", "cordoned", "cpu_requested", "cpu_free", "pods_free", "largest_pod_cpu")
    assert [[row[name] for name in names] for row in table] == [
        ["z1", "2", "1", "2000", "6000", "2", "0"],
        ["z2", "1", "0", "1000", "3000", "1", "3000"],
    ]


def test_nodes_are_selected_and_sorted(nodes: Callable[..., list[str]]) -> None:
    assert nodes("-o", "name", "--sort-by", "cpu") == ["node/c", "node/b", "node/a"]
    assert nodes("-o", "name", "--sort-by", "name") == ["node/a", "node/b", "node/c"]
    assert nodes("-o", "name", "-l", "topology.kubernetes.io/zone=z1") == ["node/a", "node/c"]
    assert nodes("-o", "name", "--remove-nodes", "a") == ["node/b", "node/c"]


def test_documents_have_taints_and_who_holds_most(nodes: Callable[..., list[str]]) -> None:
    made: dict[str, Any] = json.loads("\n".join(nodes("-o", "json", "--after-run")))
    assert (made["kind"], made["by"]) == ("Nodes", "node")
    a, b, c = made["items"]
    assert c["taints"] == ["k:NoSchedule"]
    assert (b["requested"]["cpu"], b["largest"]) == (2000, {})  # the pending pod has taken the last place
    assert a["holders"][0] == {
        "namespace": "default",
        "workload": "pod/p",
        "pods": 1,
        "requested": {"cpu": 1000, "memory": 2**30},
    }
    assert "k:NoSchedule" in nodes("-o", "wide")[5]


def test_what_a_change_could_not_do_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3},
    }
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [*ITEMS, hpa]}))
    assert main(["nodes", "-f", str(path), "--hpa", "max"]) == 0
    assert "no effect on HorizontalPodAutoscaler default/h" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--by", "rack"], '--by: no node has the label "rack"'),
        (["-l", "a=b"], '--selector: no Node has the labels "a=b"'),
        (["--sort-by", "gpu"], "--sort-by: 'gpu': must be one of name, cpu, memory, pods"),
        (["--by", "zone", "-o", "name"], "--by does not write -o name"),
    ],
)
def test_bad_options_are_one_line(
    tmp_path: Path, options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": ITEMS}))
    assert main(["nodes", "-f", str(path), *options]) == 2
    assert capsys.readouterr() == ("", f"error: {text}\n")


def test_pods_that_a_change_makes_are_on_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("web")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [node("a", "z1"), web]}))
    assert main(["nodes", "-f", str(path), "--scale", "rs/web=1", "-o", "csv"]) == 0
    row = next(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert row["pods_requested"] == "1"


def test_an_input_without_nodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text((ROOT / "tests/data/web_pod.yaml").read_text())
    assert main(["nodes", "-f", str(tmp_path / "pod.yaml")]) == 2
    text = "error: -f: The input has no node; kubectl get nodes -o json lists nodes\n"
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "csv", "json", "yaml", "name"])
@pytest.mark.parametrize(
    ("allocatable", "row"),
    [
        ({}, "a 0/0 0 - 0 0 - 0 none"),
        ({"cpu": "4", "memory": "8Gi"}, "a 0/0 4 0% 4 8Gi 0% 8Gi none"),
        ({"pods": "10"}, "a 0/10 0 - 0 0 - 0 none"),
    ],
)
def test_nodes_may_lack_resources(
    form: str,
    allocatable: dict[str, str],
    row: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(node("a", "z1") | {"status": {"allocatable": allocatable}}))
    assert main(["nodes", "-f", str(path), "-o", form]) == 0
    lines = capsys.readouterr().out.splitlines()
    if form == "table":
        assert lines[3].split() == row.split()


def test_what_namespaces_request_and_use_of_their_quotas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amounts = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    text = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, pods: 9}}}\n"
    for namespace, name in (("a", "p"), ("a", "q"), ("b", "r")):
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "resources": amounts}]}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
        text += "---\n" + json.dumps(made | {"spec": spec}) + "\n"
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"}}
    text += "---\n" + json.dumps(quota | {"spec": {"hard": {"pods": "5"}}}) + "\n"
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert main(["nodes", "--by", "namespace", "-f", str(path), "-o", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["a,2,200m,2,0,0,q: pods 2/5", "b,1,100m,1,0,0,"]
    assert main(["nodes", "-n", "a", "-f", str(path), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(moorage.cli.__file__).parent / "schemas/nodes.v1.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(made)] == []
    (item,) = made["items"]
    assert (made["kind"], item["name"], item["requests"]) == ("Namespaces", "a", {"cpu": "200m"})
    assert item["quotas"] == [{"name": "q", "resources": {"pods": {"used": "2", "hard": "5"}}}]
    assert main(["nodes", "-n", "a", "-l", "x=y", "-f", str(path)]) == 2
