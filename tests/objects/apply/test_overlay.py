"""Objects of later files are applied to earlier ones; within a file two that differ are an error."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube import apply_manifest, plain
from tests.objects.refusal import refusal

from moorage.errors import InputError
from moorage.objects import Cluster, Deployment, PersistentVolumeClaim, Rollout, load

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


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


def applied(obj: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object of a server, as kubectl has applied it."""
    served = copy.deepcopy(obj) | more
    served["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    served["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(obj), "a": "b"}
    return served


def test_a_later_path_removes_what_was_applied_last(tmp_path: Path) -> None:
    before = applied(deployment(2, labels={"old": "yes"}))
    before["metadata"]["labels"]["other"] = "yes"
    cluster = loaded(tmp_path, before, deployment(5, labels={"new": "yes"}))
    changed = only(cluster)
    assert (changed.spec.replicas, changed.metadata.labels) == (5, {"new": "yes", "other": "yes"})
    assert changed.metadata.annotations["a"] == "b"
    assert json.loads(changed.metadata.annotations[LAST_APPLIED]) == deployment(5, labels={"new": "yes"})
    assert changed.metadata.uid == "u-1"
    assert cluster.warnings == []


def test_replicas_that_no_manifest_names_stay(tmp_path: Path) -> None:
    manifest = deployment()
    del manifest["spec"]["replicas"]
    scaled = applied(manifest)
    scaled["spec"]["replicas"] = 7
    assert only(loaded(tmp_path, scaled, manifest)).spec.replicas == 7
    assert only(loaded(tmp_path, applied(deployment(4)), manifest)).spec.replicas == 1


def test_a_third_path_removes_what_the_second_had(tmp_path: Path) -> None:
    second = deployment(2, labels={"new": "yes"})
    assert only(loaded(tmp_path, applied(deployment()), second, deployment())).metadata.labels == {}


def test_an_object_of_a_server_without_a_manifest_loses_nothing(tmp_path: Path) -> None:
    before = deployment(2, uid="u-1", labels={"old": "yes"})
    cluster = loaded(tmp_path, before, deployment(5, labels={"new": "yes"}))
    assert only(cluster).metadata.labels == {"old": "yes", "new": "yes"}
    assert cluster.warnings == [
        f"Without the annotation {LAST_APPLIED}, nothing is removed that a new manifest lacks: "
        "Deployment shop/web."
    ]


def test_a_manifest_over_a_manifest_counts_whole(tmp_path: Path) -> None:
    cluster = loaded(tmp_path, deployment(2, labels={"old": "yes"}), deployment(5, labels={"new": "yes"}))
    assert (only(cluster).spec.replicas, only(cluster).metadata.labels) == (5, {"new": "yes"})
    assert cluster.warnings == []


def test_an_object_that_was_read_from_a_file_is_its_last_manifest(tmp_path: Path) -> None:
    """Also once it has a UID, which is made from its name."""
    live = only(loaded(tmp_path, deployment(labels={"old": "yes"})))
    assert live.metadata.uid
    after = apply_manifest(live, deployment(labels={"new": "yes"}))
    assert (after.metadata.labels, after.metadata.annotations) == ({"new": "yes"}, {})


def owner(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields} | more


def test_server_side_apply_removes_what_nobody_else_owns(tmp_path: Path) -> None:
    before = deployment(7, uid="u-1", labels={"old": "yes", "shared": "yes", "other": "yes"})
    spec = before["spec"]["template"]["spec"]
    spec |= {"nodeSelector": {"pool": "x"}, "schedulerName": "mine"}
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    requests: dict[str, Any] = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    containers = {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, **requests}}
    template = {"f:spec": {"f:nodeSelector": {}, "f:schedulerName": {}, "f:containers": containers}}
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {"f:old": {}, "f:shared": {}}}}
    before["metadata"]["managedFields"] = [
        owner("flux", "Apply", labels | {"f:spec": {"f:replicas": {}, "f:template": template}}),
        owner("robot", "Update", {"f:metadata": {"f:labels": {"f:shared": {}, "f:other": {}}}}),
        owner("hpa", "Update", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
    ]
    manifest = deployment()
    del manifest["spec"]["replicas"]
    cluster = loaded(tmp_path, before, manifest)
    changed, found = only(cluster), only(cluster).spec.template.spec
    assert changed.metadata.labels == {"shared": "yes", "other": "yes"}
    assert changed.spec.replicas == 7
    assert (found.node_selector, found.scheduler_name) == (None, "default-scheduler")
    assert found.containers[0].resources.requests == {"memory": "1Gi"}
    assert cluster.warnings == []


def test_what_scheduling_does_not_read_is_merged_too(tmp_path: Path) -> None:
    manifest = deployment()
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "B", "value": ""},
    ]
    before = applied(manifest)
    live = before["spec"]["template"]["spec"]["containers"][0]
    live["env"].append({"name": "INJECTED", "valueFrom": {"secretKeyRef": {"key": "k"}}})
    live["terminationMessagePath"] = "/dev/termination-log"
    before["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    again, alone = only(loaded(tmp_path, before, manifest)), only(loaded(tmp_path, before))
    assert again.spec.template == alone.spec.template
    del container["env"][0]
    changed = only(loaded(tmp_path, before, manifest)).spec.template
    assert changed.metadata == alone.spec.template.metadata
    assert plain(changed)["spec"]["containers"][0]["env"] == [
        {"name": "B"},
        {"name": "INJECTED", "valueFrom": {"secretKeyRef": {"key": "k"}}},
    ]


def test_an_explicit_false_counts(tmp_path: Path) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    served = {**node, "metadata": {"name": "n", "uid": "u"}, "spec": {"unschedulable": True}}
    assert loaded(tmp_path, served, node).nodes[0].spec.unschedulable
    manifest = node | {"spec": {"unschedulable": False}}
    assert not loaded(tmp_path, served, manifest).nodes[0].spec.unschedulable


def test_lists_of_custom_resources_are_replaced(tmp_path: Path) -> None:
    manifest = deployment() | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    before = applied(manifest)
    before["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "i"})
    before["spec"]["replicas"] = 3
    (found,) = [one for one in loaded(tmp_path, before, manifest).others if isinstance(one, Rollout)]
    assert [one.name for one in found.spec.template.spec.containers] == ["c"]
    assert found.spec.replicas == 2


def test_workloads_of_operators_are_merged_too(tmp_path: Path) -> None:
    template = deployment()["spec"]["template"]
    manifest: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "shop"},
        "spec": {"tasks": [{"name": "t", "replicas": 2, "template": template}], "queue": "q"},
    }
    before = applied(manifest)
    before["spec"]["tasks"][0]["replicas"] = 5
    without = copy.deepcopy(manifest)
    del without["spec"]["tasks"]
    assert len(loaded(tmp_path, before, manifest).pods) == 2
    assert len(loaded(tmp_path, applied(without) | {"spec": before["spec"]}, without).pods) == 5


def test_a_broken_annotation_is_told(tmp_path: Path) -> None:
    before = applied(deployment())
    before["metadata"]["annotations"][LAST_APPLIED] = "{"
    (refused,) = loaded(tmp_path, before, deployment()).refused_objects
    assert re.search("metadata.annotations.*: is not a manifest", refused.message)


def test_nothing_else_changes_and_the_place_stays(tmp_path: Path) -> None:
    first = [pod("a"), pod("b"), pod("c")]
    labelled = pod("b") | {"metadata": {"name": "b", "labels": {"x": "y"}}}
    cluster = loaded(tmp_path, first, labelled, pod("d"))
    assert [(one.name, one.metadata.labels) for one in cluster.pods] == [
        *(("a", {}), ("b", {"x": "y"}), ("c", {})),
        ("d", {}),
    ]


def test_the_last_of_several_counts(tmp_path: Path) -> None:
    assert only(loaded(tmp_path, deployment(1), deployment(4), deployment(3))).spec.replicas == 3


def test_default_namespace_is_a_namespace(tmp_path: Path) -> None:
    named = pod() | {"metadata": {"name": "p", "namespace": "default", "labels": {"x": "y"}}}
    assert [one.metadata.labels for one in loaded(tmp_path, pod(), named).pods] == [{"x": "y"}]


def test_status_and_node_of_a_running_pod_stay(tmp_path: Path) -> None:
    running = pod(spec={"nodeName": "n1"}, status={"phase": "Running"})
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
    labelled = {"kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}}
    changed = pod(status={}) | {"metadata": {"name": "p", "labels": {"a": "b"}}}
    cluster = loaded(tmp_path, [running, node], [changed, labelled])
    (one,) = cluster.pods
    assert (one.spec.node_name, one.status.phase, one.metadata.labels) == ("n1", "Running", {"a": "b"})
    assert cluster.nodes[0].status.allocatable == {"cpu": "4"}
    assert cluster.nodes[0].metadata.labels == {"a": "b"}
    assert cluster.warnings == []


def test_a_bound_claim_keeps_its_volume(tmp_path: Path) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
    cluster = loaded(tmp_path, claim | {"spec": {"volumeName": "v"}}, claim)
    assert [one.spec.volume_name for one in cluster.others if isinstance(one, PersistentVolumeClaim)] == ["v"]


def test_a_later_status_is_told(tmp_path: Path) -> None:
    running = pod(spec={"nodeName": "n1"}, status={"phase": "Running"})
    node = {"kind": "Node", "metadata": {"name": "n1"}}
    cluster = loaded(tmp_path, [running, node], pod(status={"phase": "Pending"}))
    assert (cluster.pods[0].spec.node_name, cluster.pods[0].status.phase) == ("n1", "Running")
    assert cluster.warnings == [
        "Status and node of an object that is applied again stay, so these are not read: status of Pod p."
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


def test_an_older_reading_that_was_edited_is_applied(tmp_path: Path) -> None:
    now = reading("10", spec={"nodeName": "n1"}, status={"phase": "Running"})
    edited = reading("9", spec={"activeDeadlineSeconds": 5}, status={"phase": "Pending"})
    (one,) = loaded(tmp_path, now, edited).pods
    assert (one.spec.active_deadline_seconds, one.spec.node_name, one.status.phase) == (5, "n1", "Running")


def test_equal_objects_count_once(tmp_path: Path) -> None:
    cluster = loaded(tmp_path, [deployment(), deployment(), pod()], [pod(), pod()])
    assert (len(cluster.pods), len(cluster.others), cluster.warnings) == (1, 1, [])


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
    (refused,) = loaded(tmp_path, pod(), pod(spec={"priority": 3})).refused_objects
    assert refused.source == f"{tmp_path}/1.json"
    assert refused.message.startswith('Pod "p" is invalid: spec: Forbidden: pod updates may not change')


def test_objects_that_differ_in_the_default_namespace_are_equal(tmp_path: Path) -> None:
    named = pod() | {"metadata": {"name": "p", "namespace": "default"}}
    assert len(loaded(tmp_path, [pod(), named]).pods) == 1
