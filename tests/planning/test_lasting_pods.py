"""Pods and claims that finalizers keep, or a grace period, break no planning verb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import moorage as mo
from moorage import Scheduler

GPU = "nvidia.com/gpu"
VERBS: dict[str, Callable[[Scheduler], object]] = {
    "drain plan": lambda one: one.drain_plan(["a"], force=True),
    "drain plan of a number": lambda one: one.drain_plan(1, force=True),
    "defragment": lambda one: one.defragment(nodes=1, force=True),
    "devices": lambda one: one.defragment(gpus=4, resource=GPU, force=True),
    "survive": lambda one: one.survive("node", at_once=2),
    "capacity": lambda one: one.capacity(first(one), max=3),
    "nodes needed": lambda one: one.nodes_needed([(first(one), 9)], like="a"),
    "bound": lambda one: one.bound(),
    "room": lambda one: one.node_room(),
    "drain": lambda one: (one.drain("a", force=True, delete_local_data=True), one.run()),
    "remove": lambda one: (one.remove_nodes(["a"]), one.run()),
    "restart": lambda one: (one.restart_all(), one.run()),
    "preempt": lambda one: one.preempt_pods([urgent(one)]),
    "schedule": lambda one: (one.schedule_pods([urgent(one)]), one.schedule_by_template(first(one), 3)),
    "explain": lambda one: one.explain(urgent(one)),
}
KEPT: dict[str, dict[str, Any]] = {
    "its claims": {},
    "a finalizer": {"finalizers": ["batch.kubernetes.io/job-tracking"]},
    "a finalizer and deleted": {
        "finalizers": ["example.com/keep"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    },
    "a grace period": {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 600,
    },
}
ASKED = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "cards"}}]}}
OWNERS = {"nobody": "", "of a file": "Job", "unknown": "ReplicaSet", "ordinal": "StatefulSet"}


def first(one: Scheduler) -> mo.Pod:
    return one.client.get(mo.Pod, "w-0", "default")


def urgent(one: Scheduler) -> mo.Pod:
    return one.client.get(mo.Pod, "urgent", "default")


def obj(kind: str, name: str, version: str = "v1", **rest: Any) -> dict[str, Any]:
    is_wide = kind in ("Node", "DeviceClass", "ResourceSlice")
    meta = {"name": name} | ({} if is_wide else {"namespace": "default"})
    return {"apiVersion": version, "kind": kind, "metadata": meta | rest.pop("metadata", {})} | rest


def containers(**requests: str) -> list[dict[str, Any]]:
    limits = {GPU: requests[GPU]} if GPU in requests else {}
    return [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]


def objects(meta: dict[str, Any], owner: str) -> Iterator[dict[str, Any]]:
    for name in "abc":
        yield obj("Node", name, status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9", GPU: "4"}})
        pool = {"name": name, "resourceSliceCount": 1, "generation": 1}
        slices = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": "card"}]}
        yield obj("ResourceSlice", name, "resource.k8s.io/v1", spec=slices)
    yield obj("DeviceClass", "cards", "resource.k8s.io/v1", spec={})
    yield obj("ResourceClaimTemplate", "card", "resource.k8s.io/v1", spec={"spec": ASKED})
    template = {"metadata": {"labels": {"a": "w"}}, "spec": {"containers": containers(cpu="1")}}
    workload = {"template": template, "selector": {"matchLabels": {"a": "w"}}}
    if owner == "Job":
        template["spec"]["restartPolicy"] = "Never"
        job = {"parallelism": 2, "completions": 2, "template": template}
        yield obj("Job", "w", "batch/v1", spec=job, metadata={"uid": "w"})
    elif owner == "StatefulSet":
        spec = workload | {"replicas": 2, "serviceName": "w"}
        yield obj("StatefulSet", "w", "apps/v1", spec=spec, metadata={"uid": "w"})
    version = "batch/v1" if owner == "Job" else "apps/v1"
    reference = {"apiVersion": version, "kind": owner, "name": "w", "uid": "w", "controller": True}
    for at, node in enumerate("ab"):
        volume = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        yield obj(
            "Pod",
            f"w-{at}",
            metadata={"uid": f"w-{at}", "labels": {"a": "w"}, "ownerReferences": [reference] if owner else []}
            | meta,
            spec={
                "nodeName": node,
                "containers": containers(cpu="1", **{GPU: "1"}),
                "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": volume}}],
                "resourceClaims": [{"name": "r", "resourceClaimTemplateName": "card"}],
            },
            status={
                "phase": "Running",
                "resourceClaimStatuses": [{"name": "r", "resourceClaimName": f"w-{at}-r"}],
            },
        )
        owned = {"apiVersion": "v1", "kind": "Pod", "name": f"w-{at}", "uid": f"w-{at}", "controller": True}
        yield obj(
            "PersistentVolumeClaim",
            f"w-{at}-v",
            metadata={"finalizers": ["kubernetes.io/pvc-protection"], "ownerReferences": [owned]},
            spec=volume["spec"] | {"volumeName": f"v{at}", "storageClassName": "fast"},
            status={"phase": "Bound"},
        )
        device = {"request": "one", "driver": "d", "pool": node, "device": "card"}
        yield obj(
            "ResourceClaim",
            f"w-{at}-r",
            "resource.k8s.io/v1",
            metadata={
                "finalizers": ["resource.kubernetes.io/delete-protection"],
                "ownerReferences": [owned],
                "annotations": {"resource.kubernetes.io/pod-claim-name": "r"},
            },
            spec=ASKED,
            status={
                "allocation": {"devices": {"results": [device]}},
                "reservedFor": [{"resource": "pods", "name": f"w-{at}", "uid": f"w-{at}"}],
            },
        )
    yield obj("Pod", "urgent", spec={"priority": 9, "containers": containers(cpu="4")})


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("meta", KEPT.values(), ids=KEPT)
def test_verbs_end_whatever_keeps_a_pod(meta: dict[str, Any], owner: str, verb: str) -> None:
    VERBS[verb](Scheduler(mo.load(list(objects(meta, owner)))))
