"""Objects of later files replace earlier ones; within a file two that differ are an error."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.objects import Cluster, PersistentVolumeClaim, load
from moorage.objects.model.workload import Deployment


def deployment(replicas: int = 2, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", **meta},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }


def pod(name: str = "p", spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}]} | (spec or {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec} | fields


def loaded(tmp_path: Path, *layers: Any) -> Cluster:
    """Load one file for each layer: an object, or a list of them."""
    files = []
    for number, layer in enumerate(layers):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({"kind": "List", "items": layer if isinstance(layer, list) else [layer]}))
        files.append(file)
    return load(*files)


def only(cluster: Cluster) -> Deployment:
    (found,) = [obj for obj in cluster.others if isinstance(obj, Deployment)]
    return found


def test_a_later_path_replaces_the_whole_object(tmp_path: Path) -> None:
    before = deployment(2, uid="u-1", labels={"old": "yes"}, annotations={"a": "b"})
    cluster = loaded(tmp_path, before, deployment(5, labels={"new": "yes"}))
    changed = only(cluster)
    assert (changed.spec.replicas, changed.metadata.labels) == (5, {"new": "yes"})
    assert changed.metadata.annotations == {}
    assert changed.metadata.uid == "u-1"
    assert len(cluster.pods) == 5
    assert cluster.warnings == []


def test_nothing_else_changes_and_the_place_stays(tmp_path: Path) -> None:
    first = [pod("a"), pod("b"), pod("c")]
    cluster = loaded(tmp_path, first, pod("b", {"priority": 7}), pod("d"))
    assert [(one.name, one.spec.priority) for one in cluster.pods] == [
        *(("a", 0), ("b", 7), ("c", 0)),
        ("d", 0),
    ]


def test_the_last_of_several_counts(tmp_path: Path) -> None:
    assert only(loaded(tmp_path, deployment(1), deployment(4), deployment(3))).spec.replicas == 3


def test_default_namespace_is_a_namespace(tmp_path: Path) -> None:
    named = pod(spec={"priority": 3}) | {"metadata": {"name": "p", "namespace": "default"}}
    assert [one.spec.priority for one in loaded(tmp_path, pod(), named).pods] == [3]


def test_status_and_node_of_a_running_pod_stay(tmp_path: Path) -> None:
    running = pod(spec={"nodeName": "n1"}, status={"phase": "Running"})
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
    labelled = {"kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}}
    cluster = loaded(tmp_path, [running, node], [pod(spec={"priority": 9}, status={}), labelled])
    (one,) = cluster.pods
    assert (one.spec.node_name, one.status.phase, one.spec.priority) == ("n1", "Running", 9)
    assert cluster.nodes[0].status.allocatable == {"cpu": "4"}
    assert cluster.nodes[0].metadata.labels == {"a": "b"}
    assert cluster.warnings == []


def test_a_bound_claim_keeps_its_volume(tmp_path: Path) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
    cluster = loaded(tmp_path, claim | {"spec": {"volumeName": "v"}}, claim)
    assert [one.spec.volume_name for one in cluster.others if isinstance(one, PersistentVolumeClaim)] == ["v"]


def test_a_later_status_or_node_is_told(tmp_path: Path) -> None:
    running = pod(spec={"nodeName": "n1"}, status={"phase": "Running"})
    moved = pod(spec={"nodeName": "n2"}, status={"phase": "Pending"})
    cluster = loaded(
        tmp_path, [running, *({"kind": "Node", "metadata": {"name": n}} for n in ("n1", "n2"))], moved
    )
    assert cluster.pods[0].spec.node_name == "n1"
    assert cluster.warnings == [
        "Status and node of a replaced object stay, so these are not read: "
        "status of Pod p, spec.nodeName of Pod p."
    ]


def test_a_pending_pod_may_get_a_node(tmp_path: Path) -> None:
    node = {"kind": "Node", "metadata": {"name": "n2"}}
    cluster = loaded(tmp_path, [pod(), node], pod(spec={"nodeName": "n2"}))
    assert cluster.pods[0].spec.node_name == "n2"


def reading(version: str, **fields: Any) -> dict[str, Any]:
    """A pod as an API server returns it."""
    obj = pod(**fields)
    obj["metadata"] |= {"uid": "u-1", "resourceVersion": version}
    return obj


def test_a_newer_reading_counts_with_its_status(tmp_path: Path) -> None:
    before = reading("9", spec={"nodeName": "n1"}, status={"phase": "Running"})
    after = reading("10", spec={"nodeName": "n1"}, status={"phase": "Succeeded"})
    assert [one.name for one in loaded(tmp_path, before, after).finished] == ["p"]
    assert [one.name for one in loaded(tmp_path, [after, before]).finished] == ["p"]
    assert [one.name for one in loaded(tmp_path, [before, after]).finished] == ["p"]


def test_an_older_reading_that_was_edited_replaces_the_rest(tmp_path: Path) -> None:
    now = reading("10", spec={"nodeName": "n1"}, status={"phase": "Running"})
    edited = reading("9", spec={"priority": 5}, status={"phase": "Pending"})
    (one,) = loaded(tmp_path, now, edited).pods
    assert (one.spec.priority, one.spec.node_name, one.status.phase) == (5, "n1", "Running")


def test_equal_objects_count_once(tmp_path: Path) -> None:
    cluster = loaded(tmp_path, [deployment(), deployment(), pod()], [pod(), pod()])
    assert (len(cluster.pods), cluster.warnings) == (3, [])


def test_a_directory_is_one_path(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(pod()))
    (tmp_path / "b.json").write_text(json.dumps(pod(spec={"priority": 1})))
    assert refusal(tmp_path) == (
        f"{tmp_path.name}/b.json: Pod p: listed twice, and different in {tmp_path.name}/a.json, document 1"
    )


def test_both_places_in_a_file_are_named(tmp_path: Path) -> None:
    other = pod(spec={"priority": 1})
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, [pod("x"), pod(), copy.deepcopy(other)])
    assert str(caught.value) == (
        f"{tmp_path}/0.json: Pod p: listed twice, and different in {tmp_path}/0.json, items[1]"
    )
    # An earlier file does not hide it.
    with pytest.raises(InputError, match=r"listed twice, and different in .*/1.json, items\[0\]$"):
        loaded(tmp_path, pod(spec={"priority": 3}), [pod(), other])


def test_a_replaced_object_must_be_valid(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0.json: Pod p: spec.containers: a pod needs"):
        loaded(tmp_path, pod(spec={"containers": []}), pod())


def test_errors_name_the_file_that_counts(tmp_path: Path) -> None:
    other = pod() | {"metadata": {"name": "q", "uid": "u"}}
    changed = pod() | {"metadata": {"name": "p", "uid": "u"}}
    with pytest.raises(InputError, match=r"1.json: Pod p: metadata.uid: another object"):
        loaded(tmp_path, [other, pod()], changed)


def test_objects_that_differ_in_the_default_namespace_are_equal(tmp_path: Path) -> None:
    named = pod() | {"metadata": {"name": "p", "namespace": "default"}}
    assert len(loaded(tmp_path, [pod(), named]).pods) == 1
