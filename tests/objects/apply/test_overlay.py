"""Objects of later arguments are applied to earlier ones; within an argument two that differ are an error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.doors.kube import apply_manifest, plain
from tests.make import Json, template

from moorage import load
from moorage.errors import InputError
from moorage.kube import Cluster, Deployment, PersistentVolumeClaim, Rollout

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OLD, NEW = {"old": "yes"}, {"new": "yes"}


def deployment(replicas: int | None = 2, **meta: Any) -> Json:
    containers = [{"name": "c", "image": "nginx"}]
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template("web", containers=containers)}
    spec |= {} if replicas is None else {"replicas": replicas}
    metadata = {"name": "web", "namespace": "shop", **meta}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def pod(name: str = "p", spec: Json | None = None, meta: Json | None = None, **fields: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]} | (spec or {})
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name} | (meta or {}),
        "spec": spec,
    } | fields


def node(name: str, **fields: Any) -> Json:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}} | fields


def only(cluster: Cluster, kind: type = Deployment) -> Any:
    (found,) = [obj for obj in cluster.others if isinstance(obj, kind)]
    return found


def applied(obj: Json, **more: Any) -> Json:
    """An object of a server, as kubectl has applied it."""
    served = copy.deepcopy(obj) | more
    served["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    served["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(obj), "a": "b"}
    return served


WITHOUT = f"Without the annotation {LAST_APPLIED}, nothing is removed that a new manifest lacks: "


@pytest.mark.parametrize(
    ("layers", "labels", "warnings"),
    [
        ([applied(deployment()), deployment(labels=NEW), deployment()], {}, []),
        (
            [deployment(uid="u-1", labels=OLD), deployment(5, labels=NEW)],
            OLD | NEW,
            [f"{WITHOUT}Deployment shop/web."],
        ),
        ([deployment(labels=OLD), deployment(5, labels=NEW)], NEW, []),
        ([deployment(1), deployment(4, labels=NEW), deployment(3, labels=OLD)], OLD, []),
    ],
    ids=["a third path", "of a server without a manifest", "a manifest over a manifest", "the last counts"],
)
def test_labels_are_those_of_the_last_manifest_and_of_others(
    layers: list[Json], labels: Json, warnings: list[str]
) -> None:
    cluster = load(*layers)
    assert (only(cluster).metadata.labels, cluster.warnings) == (labels, warnings)
    assert only(cluster).spec.replicas == layers[-1]["spec"]["replicas"]


def test_an_object_that_was_read_from_a_file_is_its_last_manifest() -> None:
    """Also once it has a UID, which is made from its name."""
    live = only(load(deployment(labels=OLD)))
    assert live.metadata.uid
    after = apply_manifest(live, deployment(labels=NEW))
    assert (after.metadata.labels, after.metadata.annotations) == (NEW, {})


def owner(manager: str, operation: str, fields: Json, **more: str) -> Json:
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields} | more


def test_server_side_apply_removes_what_nobody_else_owns() -> None:
    before = deployment(7, uid="u-1", labels={"old": "yes", "shared": "yes", "other": "yes"})
    spec = before["spec"]["template"]["spec"]
    spec |= {"nodeSelector": {"pool": "x"}, "schedulerName": "mine"}
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    requests: Json = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    containers = {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, **requests}}
    inner = {"f:spec": {"f:nodeSelector": {}, "f:schedulerName": {}, "f:containers": containers}}
    labels: Json = {"f:metadata": {"f:labels": {"f:old": {}, "f:shared": {}}}}
    before["metadata"]["managedFields"] = [
        owner("flux", "Apply", labels | {"f:spec": {"f:replicas": {}, "f:template": inner}}),
        owner("robot", "Update", {"f:metadata": {"f:labels": {"f:shared": {}, "f:other": {}}}}),
        owner("hpa", "Update", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
    ]
    cluster = load(before, deployment(None))
    changed, found = only(cluster), only(cluster).spec.template.spec
    assert changed.metadata.labels == {"shared": "yes", "other": "yes"}
    assert (changed.spec.replicas, cluster.warnings) == (7, [])
    assert (found.node_selector, found.scheduler_name) == (None, "default-scheduler")
    assert found.containers[0].resources.requests == {"memory": "1Gi"}


def test_what_scheduling_does_not_read_is_merged_too() -> None:
    manifest = deployment()
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    reference = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    injected = {"name": "INJECTED", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    container["env"] = [reference, {"name": "B", "value": ""}]
    before = applied(manifest)
    live = before["spec"]["template"]["spec"]["containers"][0]
    live["env"].append(injected)
    live["terminationMessagePath"] = "/dev/termination-log"
    before["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    again, alone = only(load(before, manifest)), only(load(before))
    assert again.spec.template == alone.spec.template
    del container["env"][0]
    changed = only(load(before, manifest)).spec.template
    assert changed.metadata == alone.spec.template.metadata
    assert plain(changed)["spec"]["containers"][0]["env"] == [{"name": "B"}, injected]


def test_lists_of_custom_resources_are_replaced() -> None:
    manifest = deployment() | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    before = applied(manifest)
    before["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "i"})
    before["spec"]["replicas"] = 3
    found = only(load(before, manifest), Rollout)
    assert [one.name for one in found.spec.template.spec.containers] == ["c"]
    assert found.spec.replicas == 2


def test_workloads_of_operators_are_merged_too() -> None:
    tasks = [{"name": "t", "replicas": 2, "template": template("t")}]
    head: Json = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    head |= {"metadata": {"name": "j", "namespace": "shop"}}
    manifest, without = head | {"spec": {"tasks": tasks, "queue": "q"}}, head | {"spec": {"queue": "q"}}
    before = applied(manifest)
    before["spec"]["tasks"][0]["replicas"] = 5
    assert len(load(before, manifest).pods) == 2
    assert len(load(applied(without) | {"spec": before["spec"]}, without).pods) == 5


def test_a_broken_annotation_is_told() -> None:
    before = applied(deployment())
    before["metadata"]["annotations"][LAST_APPLIED] = "{"
    with pytest.raises(InputError, match=r"metadata.annotations.* is not a manifest"):
        load(before, deployment())


RUNNING = pod(spec={"nodeName": "n1"}, status={"phase": "Running"})


def test_a_bound_claim_keeps_its_volume() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
    cluster = load(claim | {"spec": {"volumeName": "v"}}, claim)
    assert only(cluster, PersistentVolumeClaim).spec.volume_name == "v"


def test_a_later_status_is_told() -> None:
    cluster = load([RUNNING, node("n1")], pod(status={"phase": "Pending"}))
    assert (cluster.pods[0].spec.node_name, cluster.pods[0].status.phase) == ("n1", "Running")
    assert cluster.warnings == [
        "Status and node of an object that is applied again stay, so these are not read: status of Pod p."
    ]


def reading(version: str, phase: str, **spec: Any) -> Json:
    """A pod as an API server returns it."""
    meta = {"uid": "u-1", "resourceVersion": version}
    return pod(spec={"nodeName": "n1"} | spec, meta=meta, status={"phase": phase})


def test_a_newer_reading_counts_with_its_status() -> None:
    before, after = reading("9", "Running"), reading("10", "Succeeded")
    for layers in ([before, after], [[after, before]], [[before, after]]):
        assert [one.name for one in load(*layers).finished] == ["p"]


def test_an_older_reading_that_was_edited_is_a_conflict() -> None:
    edited = reading("9", "Pending", activeDeadlineSeconds=5)
    cluster = load(reading("10", "Running"), edited, refused="ignore")
    (one,), (refused,) = cluster.pods, cluster.refused_objects
    assert (one.spec.active_deadline_seconds, one.spec.node_name, one.status.phase) == (None, "n1", "Running")
    assert "the object has been modified" in refused.message


def test_equal_objects_count_once() -> None:
    """Those without a namespace are of the namespace default."""
    named = pod(meta={"namespace": "default"})
    cluster = load([deployment(), deployment(), pod()], [pod(), named])
    assert (len(cluster.pods), len(cluster.others), cluster.warnings) == (1, 1, [])


def test_a_replaced_object_must_be_valid() -> None:
    with pytest.raises(InputError, match=r"argument 1: Pod p: spec.containers: Required value"):
        load(pod(spec={"containers": []}), pod())
