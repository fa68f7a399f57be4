"""Pods that were about to start or to end when a cluster was read do so as time passes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import all_pods, machine, pods, replicas, scheduler, template
from tests.make import make, storage_class, volume
from tests.objects.make import owned, pod, workload

import moorage as mo
from moorage.kube import Node, Object, PersistentVolume, Pod, ReplicaSet, build_cluster

READY, LOST = ({"type": "Ready", "status": status} for status in ("True", "Unknown"))


def going(name: str, node: str = "a", **metadata: Any) -> Object:
    one = pod(name, template("x", "3")["spec"] | {"nodeName": node}, metadata=metadata)
    times = {"deletion_timestamp": "2026-01-01T00:00:30Z", "deletion_grace_period_seconds": 30}
    return replace(one, metadata=replace(one.metadata, **times))


def reporting(name: str, condition: dict[str, str]) -> Any:
    status = {"conditions": [condition], "capacity": {"cpu": "4", "pods": "9"}}
    return make("Node", name, status=status)


def test_a_pod_that_ends_makes_room_when_it_has_stopped() -> None:
    one = mo.Scheduler(
        build_cluster([reporting("a", READY), going("x"), replicas("ReplicaSet", "web", 1, "2")])
    )
    one.sync()
    assert "x" in all_pods(one)
    one.run()
    assert list(all_pods(one).values()) == ["a"]
    assert one.volumes.now() == 5  # and not its grace period: most stop before


def test_a_pod_stays_on_a_node_that_nobody_hears_of() -> None:
    one = scheduler(reporting("a", LOST), going("x"))
    assert list(all_pods(one)) == ["x"]
    node: Node = one.client.get(Node, "a")
    one.client.update(replace(node, status=reporting("a", READY).status))
    one.run()
    assert pods(one) == {}


def test_a_pod_with_a_finalizer_of_others_fails_and_stays() -> None:
    one = scheduler(reporting("a", READY), going("x", finalizers=["example.com/x"]))
    its: Pod = one.client.get(Pod, "x", "default")
    assert its.status.phase == "Failed"
    assert not one.cache.state.has_pod(its)


def test_a_pod_that_its_kubelet_may_not_delete_fails_and_stays() -> None:
    api = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
    constraints = {"matchConstraints": {"resourceRules": [rule]}}
    expression = "request.userInfo.username != 'system:node:a'"
    policy = {"metadata": {"name": "p"}, "spec": constraints | {"validations": [{"expression": expression}]}}
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    one = scheduler(
        reporting("a", READY),
        *(going("x"), going("y", node="gone")),
        mo.read_object({"apiVersion": api, "kind": "ValidatingAdmissionPolicy"} | policy),
        mo.read_object({"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding"} | binding),
    )
    (its,) = one.client.list(Pod)[0]
    assert (its.name, its.status.phase) == ("x", "Failed")
    assert list(one.client.denied) == ["Pod default/x"]
    mark = one.client.save()
    one.client.denied.clear()
    one.client.undo(mark)
    assert list(one.client.denied) == ["Pod default/x"]


def test_the_name_of_a_stateful_pod_is_free_when_it_has_ended() -> None:
    meta = owned("StatefulSet", "db", labels={"app": "db"})
    one = scheduler(reporting("a", READY), replicas("StatefulSet", "db", 1), going("db-0", **meta))
    its: Pod = one.client.get(Pod, "db-0", "default")
    assert its.metadata.deletion_timestamp is None
    assert its.spec.node_name == "a"


# ---- pods that are not ready -------------------------------------------------------------------------------


def member(name: str, mark: str, phase: str, reason: str = "") -> Object:
    meta = owned("ReplicaSet", f"web-{mark}", labels={"app": "web", "pod-template-hash": mark})
    state = [{"name": "c", "state": {"waiting": {"reason": reason}}}] if reason else []
    conditions = [{"type": "Ready", "status": "True" if phase == "Ready" else "False"}]
    status = {
        "phase": "Pending" if phase == "Pending" else "Running",
        "conditions": conditions,
        "containerStatuses": state,
    }
    return pod(name, template("web")["spec"] | {"nodeName": "a"}, metadata=meta, status=status)


def rolled_out(*of_new: Object) -> dict[str, int]:
    """How many pods of each template there are after a rollout with a pod of the new template."""

    def revision(mark: str, number: int, replicas: int, image: str) -> Object:
        labels = {"app": "web", "pod-template-hash": mark}
        spec = template("web") | {"metadata": {"labels": labels}}
        spec["spec"]["containers"][0]["image"] = image
        meta = owned("Deployment", "web", annotations={"deployment.kubernetes.io/revision": str(number)})
        own = {"replicas": replicas, "template": spec, "selector": {"matchLabels": labels}}
        return make("ReplicaSet", f"web-{mark}", own, metadata=meta)

    new = template("web")
    new["spec"]["containers"][0]["image"] = "new"
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 2, "template": new, "strategy": surge, "selector": selector}
    one = scheduler(
        machine("a", 20),
        workload("Deployment", "web", spec),
        revision("old", 1, 2, "old"),
        revision("new", 2, 1, "new"),
        *(member(f"old-{at}", "old", "Ready") for at in "ab"),
        *of_new,
    )
    one.sync()
    found: list[Pod] = one.client.list(Pod)[0]
    marks = [each.metadata.labels["pod-template-hash"] for each in found if each.spec.node_name]
    return {mark: marks.count(mark) for mark in sorted(set(marks))}


@pytest.mark.parametrize(
    ("phase", "reason", "left"),
    [
        ("Ready", "", {"new": 2}),
        ("Pending", "", {"new": 2}),
        ("Pending", "ContainerCreating", {"new": 2}),
        ("Pending", "ImagePullBackOff", {"new": 2, "old": 2}),
        ("Running", "", {"new": 2, "old": 2}),
    ],
)
def test_a_rollout_goes_on_if_its_pods_start(phase: str, reason: str, left: dict[str, int]) -> None:
    assert rolled_out(member("new-a", "new", phase, reason)) == left


def test_one_ready_pod_of_a_template_is_enough_to_take_new_ones_as_ready() -> None:
    assert rolled_out(member("new-a", "new", "Running"), member("new-b", "new", "Ready")) != {
        "new": 2,
        "old": 2,
    }


# ---- finalizers of controllers -----------------------------------------------------------------------------

PROTECTED = ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"]
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("finalizer", "of_pod", "there"),
    [
        ("foregroundDeletion", [], ([], 0)),
        ("foregroundDeletion", ["example.com/x"], (["web-a"], 1)),
        ("orphan", [], (["web-a"], 0)),
    ],
)
def test_dependents_of_a_deleted_object(finalizer: str, of_pod: list[str], there: Any) -> None:
    """In the foreground they go before it, and it waits for them."""
    meta = {"finalizers": [finalizer]} | DELETED
    its = owned("ReplicaSet", "web", labels={"app": "web"}, finalizers=of_pod)
    web = workload("ReplicaSet", "web", {"replicas": 1}, metadata=meta)
    one = scheduler(machine("a"), web, pod("web-a", {"nodeName": "a"}, metadata=its))
    assert (list(all_pods(one)), len(one.client.list(ReplicaSet)[0])) == there


@pytest.mark.parametrize(("phase", "is_there"), [("Bound", True), ("Released", False), ("Available", False)])
def test_a_volume_that_is_deleted_goes_unless_a_claim_has_it(phase: str, is_there: bool) -> None:
    going = volume("v", status={"phase": phase}, metadata={"finalizers": PROTECTED} | DELETED)
    one = scheduler(machine("a"), going)
    assert bool(one.client.list(PersistentVolume)[0]) == is_there


def test_a_released_volume_with_finalizers_of_its_provisioner_goes() -> None:
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "gone"}
    spec: dict[str, Any] = {"claimRef": reference, "csi": {"driver": "csi", "volumeHandle": "v"}}
    spec |= {"persistentVolumeReclaimPolicy": "Delete"}
    released = volume("v", **spec, status={"phase": "Released"}, metadata={"finalizers": PROTECTED})
    one = scheduler(machine("a"), storage_class("fast", "csi"), released)
    assert one.client.list(PersistentVolume)[0] == []
