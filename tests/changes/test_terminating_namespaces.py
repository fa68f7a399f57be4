"""A namespace that is being deleted when a cluster is read: nothing is made there, and all in it goes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import template

import moorage as mo
from moorage.errors import InputError
from moorage.kube import Object, Pod

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TEXT = "unable to create new content in namespace old because it is being terminated"


def obj(kind: str, name: str, spec: dict[str, Any], version: str = "apps/v1", **meta: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "old", "uid": name, "resourceVersion": "1"} | meta
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    version = "batch/v1" if kind.endswith("Job") else "apps/v1"
    its = template("w") if version == "apps/v1" else template("w", restartPolicy="Never")
    spec |= {"template": its} | ({"selector": {"matchLabels": {"app": "w"}}} if version == "apps/v1" else {})
    return obj(
        kind,
        "w",
        {"schedule": "@daily", "jobTemplate": {"spec": spec}} if kind == "CronJob" else spec,
        version,
    )


def space(name: str = "old", **meta: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": "1"} | meta
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def cluster(*objects: dict[str, Any], going: bool = True) -> mo.Cluster:
    room = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
    meta = {"name": "a", "uid": "a", "resourceVersion": "1"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": room}
    return mo.load([space("default"), space(**GOING) if going else space(), node, *objects])


def member(kind: str, **meta: Any) -> dict[str, Any]:
    owner = [{"apiVersion": "apps/v1", "kind": kind, "name": "w", "uid": "w", "controller": True}]
    its = template("w")
    meta |= {"ownerReferences": owner, "labels": its["metadata"]["labels"]}
    pod = obj("Pod", "w-0", its["spec"] | {"nodeName": "a"}, "v1", **meta)
    return pod | {"status": {"phase": "Running"}}


def there(one: mo.Scheduler) -> list[str]:
    pods: list[Pod] = one.client.list(Pod, "old")[0]
    return [pod.name for pod in pods]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"])
@pytest.mark.parametrize("going", [False, True])
def test_workloads_make_no_pods(kind: str, going: bool) -> None:
    found = cluster(workload(kind), going=going)
    one = mo.Scheduler(found)
    created = one.change.run_cron_jobs().created
    one.run()
    assert (there(one) == []) == going
    assert (created == ()) == (going or kind != "CronJob")
    assert (one.ask.refusals(), one.ask.awaited_pods(), one.ask.rollouts()) == ({}, [], [])


@pytest.mark.parametrize(
    ("meta", "left"),
    [
        ({}, []),
        (GOING | {"deletionGracePeriodSeconds": 30}, []),
        ({"finalizers": ["example.com/mine"]}, ["w-0"]),
    ],
    ids=["running", "terminating", "with a finalizer"],
)
def test_its_pods_go_and_leave_their_room(meta: dict[str, Any], left: list[str]) -> None:
    large = obj("Pod", "large", template("l", "4")["spec"], "v1", namespace="default")
    one = mo.Scheduler(cluster(workload("ReplicaSet", replicas=2), member("ReplicaSet", **meta), large))
    one.run()
    assert there(one) == left
    assert one.client.get(Pod, "large", "default").spec.node_name == "a"


def new(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = "v1" if kind == "Pod" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "old"}, "spec": spec}


NEW = {
    "pods": new("Pod", "new", template("w")["spec"]),
    "deployments.apps": new("Deployment", "new", workload("Deployment")["spec"]),
}


@pytest.mark.parametrize("resource", NEW)
def test_new_objects_are_refused(resource: str) -> None:
    text = f'{resource} "new" is forbidden: {TEXT}'
    with pytest.raises(InputError, match=text):
        cluster(NEW[resource])
    one = mo.Scheduler(cluster())
    with pytest.raises(InputError, match=text):
        one.change.apply(NEW[resource])
    objects: list[Object] = [*one.client.list(Pod)[0], *one.client.list("Deployment")[0]]
    assert objects == []
