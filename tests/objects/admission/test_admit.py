"""`moorage.admit`: objects as an API server stores them, what it refuses, and what it warns of."""

from __future__ import annotations

from typing import Any

from tests.make import written

import moorage as mo

Json = dict[str, Any]
PROFILES = ("seccomp.security.alpha", "apparmor.security.beta")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def pod(name: str = "web", **meta: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def deployment(name: str = "web", replicas: int = 1, **labels: str) -> Json:
    template = {"metadata": {"labels": labels or {"app": name}}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def namespace(name: str, **labels: str) -> Json:
    meta = {"name": name, "labels": labels, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def test_the_cluster_counts() -> None:
    """Labels of a namespace refuse a pod, and warn of a template."""
    cluster = [namespace("default"), namespace("safe", **RESTRICTED)]
    answer = mo.admit(cluster, [pod(), deployment()], namespace="safe")
    assert [obj["kind"] for obj in answer.objects] == ["Deployment"]
    assert [refusal.kind for refusal in answer.refused] == ["Pod"]
    assert 'violates PodSecurity "restricted:latest"' in answer.refused[0].message
    (warning,) = answer.warnings
    assert warning.obj == "Deployment safe/web"
    assert warning.message.startswith('would violate PodSecurity "restricted:latest"')
    assert mo.admit(cluster, pod(), namespace="gone").refused[0].message == 'namespaces "gone" not found'


def test_an_object_that_exists_is_changed() -> None:
    before = mo.load([namespace("default"), deployment(replicas=3)])
    manifest = deployment()
    del manifest["spec"]["replicas"]
    manifest["spec"]["minReadySeconds"] = 5
    (stored,) = mo.admit(before, manifest).objects
    assert stored["spec"]["minReadySeconds"] == 5
    other = deployment()
    other["spec"]["selector"]["matchLabels"] = other["spec"]["template"]["metadata"]["labels"] = {"a": "b"}
    assert "field is immutable" in mo.admit(before, other).refused[0].message


def test_unknown_fields_are_as_with_kubectl() -> None:
    wrong = pod() | {"spec": pod()["spec"] | {"nodeSelektor": {}}}
    (refused,) = mo.admit(mo.Cluster(), wrong).refused
    assert refused.message == 'unknown field "spec.nodeSelektor"; nearest: nodeSelector'
    assert mo.admit(mo.Cluster(), wrong, validate="ignore")


def test_kinds_that_are_not_read_pass() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    assert mo.admit(mo.Cluster(), config).objects == [config]


def test_who_cannot_be_asked_is_named() -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhooks = written(
        "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
        "guard",
        webhooks=[{"name": "guard.example.com", "rules": [rule]}],
    )
    (asked,) = mo.admit(mo.load(webhooks), pod()).not_asked
    assert (asked.name, asked.webhook, asked.about) == ("guard", "guard.example.com", ["Pod default/web"])


def test_a_server_warns_of_what_will_surprise() -> None:
    given = pod("a.b", annotations={f"container.{name}.kubernetes.io/c": "unconfined" for name in PROFILES})
    given["spec"]["imagePullSecrets"] = [{"name": ""}, {"name": "s"}, {"name": "s"}]
    given["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"externalID": "x"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    service["spec"] = {"ports": [{"port": 80}], "externalIPs": ["9.9.9.9"]}
    warnings = mo.admit(mo.Cluster(), [given, node, service]).warnings
    assert [f"{item.obj}: {item.message.partition(': ')[0].partition(' is ')[0]}" for item in warnings] == [
        "Pod default/a.b: metadata.name",
        "Pod default/a.b: metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]",
        "Pod default/a.b: metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]",
        "Pod default/a.b: spec.imagePullSecrets[0].name",
        "Pod default/a.b: spec.imagePullSecrets[2].name",
        "Pod default/a.b: spec.containers[0].env[1]",
        "Node n: spec.externalID",
        "Service default/s: spec.externalIPs",
    ]


def test_a_pod_with_a_generated_name_is_refused_once() -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sec", "labels": labels}}
    meta = {"generateName": "p-", "namespace": "sec"}
    containers = [{"name": "c", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
    answer = mo.admit([space], pod)
    assert str(answer).startswith("0 accepted, 1 refused\nrefused: argument 2: pods ")
    assert answer.objects == []


def test_null_in_a_list_is_an_empty_item_as_go_reads_it() -> None:
    given = pod()
    given["spec"]["containers"][0] |= {"env": [None], "volumeMounts": [None]}
    (refusal,) = mo.admit(mo.Cluster(), given).refused
    assert "spec.containers[0].env[0].name: Required value" in str(refusal)
    assert "spec.containers[0].volumeMounts[0].mountPath: Required value" in str(refusal)
    node = written("v1/Node", "n", status={"capacity": {"cpu": "x"}})
    (refusal,) = mo.admit(mo.Cluster(), node).refused
    assert "cannot be handled as a Node: quantities must match" in str(refusal)


def test_amounts_of_a_node_are_judged_in_a_manifest_too() -> None:
    status = {"capacity": {"cpu": "-1"}, "allocatable": {"pods": "1500m"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    (refused,) = mo.admit(mo.Cluster(), node).refused
    assert "status.capacity.cpu: Invalid value" in refused.message
    assert "status.allocatable.pods: Invalid value" in refused.message
