"""Reading files: forms, order, what is left out, what is warned about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.make import written

from moorage.kube import Cluster, load


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **fields}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return written("v1/Pod", name, {"containers": [{"name": "c"}], **spec})


def listed(*items: Any, kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def names(cluster: Cluster) -> list[str]:
    return [obj.name for obj in (*cluster.nodes, *cluster.pods)]


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as it stands in a typed list: without kind."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


OBJECTS = [node("n1"), pod("p1"), node("n2"), pod("p2")]
FORMS = {
    "list.json": json.dumps(listed(*OBJECTS)),
    "indented.json": "\n " + json.dumps(listed(*OBJECTS), indent=2) + "\n\n",
    "list.yaml": yaml.safe_dump(listed(*OBJECTS)),
    "documents.yaml": yaml.safe_dump_all(OBJECTS, explicit_start=True),
    "lines.json": "\n".join(json.dumps(obj) for obj in OBJECTS) + "\n",
    "joined.json": "".join(json.dumps(obj) for obj in OBJECTS),
    "bom.json": "\ufeff" + json.dumps(listed(*OBJECTS)),
    "json.yaml": json.dumps(listed(*OBJECTS)),
    "flow.yaml": yaml.safe_dump(listed(*OBJECTS), default_flow_style=True),
    "any.txt": json.dumps(listed(*OBJECTS)),
    "typed.json": json.dumps(listed(bare(node("n1")), bare(node("n2")), kind="NodeList"))
    + json.dumps(listed(bare(pod("p1")), bare(pod("p2")), kind="PodList")),
    "typed.yaml": yaml.safe_dump_all(
        [
            listed(bare(node("n1")), node("n2"), kind="NodeList"),
            listed(pod("p1"), bare(pod("p2")), kind="PodList"),
        ]
    ),
    "lists in a list.json": json.dumps(
        listed(listed(node("n1"), pod("p1")), listed(listed(node("n2"))), pod("p2"))
    ),
}


@pytest.mark.parametrize("nothing", [[], '{"apiVersion": "v1", "kind": "List", "items": []}'])
def test_an_input_without_objects_says_so(nothing: Any) -> None:
    assert load(nothing).warnings == ["The input has no object."]


@pytest.mark.parametrize("name", FORMS)
def test_lists_documents_and_streams_are_read_alike(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name])
    cluster = load(tmp_path / name)
    assert names(cluster) == ["n1", "n2", "p1", "p2"]
    assert cluster.warnings == []


def test_directory_is_read_in_order_of_names(tmp_path: Path) -> None:
    for name in ("2.json", "10.yaml", "3.yml"):
        (tmp_path / name).write_text(json.dumps(node(f"n-{name}")))
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / "deeper.yaml").mkdir()
    assert names(load(tmp_path)) == ["n-10.yaml", "n-2.json", "n-3.yml"]


def test_kind_that_ends_in_list_is_an_object_without_items(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"kind": "AllowList", "metadata": {"name": "x"}}')
    assert load(tmp_path / "f.json").skipped == {"AllowList": 1}


def test_other_kinds_are_counted_in_a_warning_or_two(tmp_path: Path) -> None:
    objects = [
        {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "s"}, "spec": {}},
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": 7},
        {"kind": "ConfigMap", "apiVersion": "v1"},
        {"kind": "Boat", "apiVersion": "sea.example/v1", "metadata": {"name": "k"}},
    ]
    (tmp_path / "a.json").write_text(json.dumps(listed(*objects[:2])))
    (tmp_path / "b.json").write_text(json.dumps(listed(*objects[2:])))
    cluster = load(tmp_path)
    assert cluster.skipped == {
        "ConfigMap": 2,
        "Ingress.networking.k8s.io": 1,
        "Boat.sea.example": 1,
    }
    assert cluster.warnings == [
        "Left out, because scheduling does not read these kinds: ConfigMap (2), "
        "Ingress.networking.k8s.io (1).",
        "Left out, as moorage does not know whether these kinds make pods: Boat.sea.example (1).",
    ]


def test_many_other_kinds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(
        json.dumps(listed(*({"kind": f"K{at:02}", "metadata": {"name": "x"}} for at in range(40))))
    )
    shown = ", ".join(f"K{at:02} (1)" for at in range(15))
    assert load(path).warnings == [
        f"Left out, because scheduling does not read these kinds (40): {shown}, …."
    ]


def test_namespaces_that_hold_something_exist_with_the_label_of_their_name(tmp_path: Path) -> None:
    there = {"kind": "Namespace", "metadata": {"name": "a", "labels": {"team": "x"}}}
    pods = [pod("p") | {"metadata": {"name": "p", "namespace": name}} for name in ("a", "b")]
    (tmp_path / "f.json").write_text(json.dumps(listed(there, *pods)))
    labels = {item.name: item.metadata.labels for item in load(tmp_path).namespaces}
    key = "kubernetes.io/metadata.name"
    assert labels == {"a": {"team": "x", key: "a"}, "b": {key: "b"}}


def test_finished_pods_are_set_apart(tmp_path: Path) -> None:
    objects = [pod("a") | {"status": {"phase": phase}} for phase in ("Succeeded",)]
    objects += [pod("b") | {"status": {"phase": "Failed"}}, pod("c") | {"status": {"phase": "Running"}}]
    (tmp_path / "f.json").write_text(json.dumps(listed(*objects)))
    cluster = load(tmp_path)
    assert [item.name for item in cluster.finished] == ["a", "b"]
    assert [item.name for item in cluster.pods] == ["c"]


def test_terminating_pods_and_other_schedulers_pods_are_kept(tmp_path: Path) -> None:
    leaving = pod("a")
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    (tmp_path / "f.json").write_text(json.dumps(listed(leaving, pod("b", schedulerName="volcano"))))
    assert names(load(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("count", "warning"),
    [
        (1, "1 pod is bound to nodes that are not in the input: default/p0 on gone."),
        (
            3,
            "3 pods are bound to nodes that are not in the input: default/p0 on gone, default/p1 on gone, "
            "default/p2 on gone.",
        ),
        (
            4,
            "4 pods are bound to nodes that are not in the input: default/p0 on gone, default/p1 on gone, "
            "default/p2 on gone, ….",
        ),
    ],
)
def test_pods_on_unknown_nodes_are_kept_and_warned_about(count: int, warning: str, tmp_path: Path) -> None:
    objects = [
        node("here"),
        pod("fine", nodeName="here"),
        *(pod(f"p{i}", nodeName="gone") for i in range(count)),
    ]
    (tmp_path / "f.json").write_text(json.dumps(listed(*objects)))
    cluster = load(tmp_path)
    assert len(cluster.pods) == count + 1
    assert cluster.warnings == [warning]
