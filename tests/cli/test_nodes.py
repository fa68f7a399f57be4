"""``moorage nodes``: its documents and forms; the text is in `tests/cases/cli/nodes.md`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import moorage.cli
from moorage.cli import main
from tests.cli.test_simulate import node, pod

ITEMS = [
    node("a", "z1"),
    node("b", "z2"),
    node("c", "z1") | {"spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}},
    pod("p", nodeName="a"),
    pod("q", nodeName="a"),
    pod("r", nodeName="b"),
    pod("pending"),
]


def test_documents_have_taints_and_who_holds_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": ITEMS}))
    assert main(["nodes", "-f", str(path), "-o", "json", "--after-run"]) == 0
    made = json.loads(capsys.readouterr().out)
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
    assert main(["nodes", "-n", "a", "-f", str(path), "-o", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(moorage.cli.__file__).parent / "schemas/nodes.v1.json").read_text())
    assert [error.message for error in Draft202012Validator(schema).iter_errors(made)] == []
    (item,) = made["items"]
    assert (made["kind"], item["name"], item["requests"]) == ("Namespaces", "a", {"cpu": "200m"})
    assert item["quotas"] == [{"name": "q", "resources": {"pods": {"used": "2", "hard": "5"}}}]
