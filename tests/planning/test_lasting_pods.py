"""Pods and claims that finalizers keep, or a grace period, break no planning verb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import moorage as mo
from moorage import Scheduler
from tests.make import claim, make, node, pod, scheduler, workload

GPU = "nvidia.com/gpu"
VERBS: dict[str, Callable[[Scheduler], object]] = {
    "drain plan": lambda one: one.ask.drain_plan(["a"], force=True),
    "drain plan of a number": lambda one: one.ask.drain_plan(1, force=True),
    "defragment": lambda one: one.ask.defragment(nodes=1, force=True),
    "devices": lambda one: one.ask.defragment(gpus=4, resource=GPU, force=True),
    "survive": lambda one: one.ask.survive("node", at_once=2),
    "capacity": lambda one: one.ask.capacity(first(one), max=3),
    "nodes needed": lambda one: one.ask.nodes_needed([(first(one), 9)], like="a"),
    "bound": lambda one: one.ask.bound(),
    "room": lambda one: one.ask.node_room(),
    "drain": lambda one: (one.change.drain("a", force=True, delete_local_data=True), one.run()),
    "remove": lambda one: (one.change.remove_nodes(["a"]), one.run()),
    "restart": lambda one: (one.change.restart_all(), one.run()),
    "preempt": lambda one: one.preempt_pods([urgent(one)]),
    "schedule": lambda one: (one.schedule_pods([urgent(one)]), one.schedule_by_template(first(one), 3)),
    "explain": lambda one: one.ask.explain(urgent(one)),
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


def slices(node: str) -> Any:
    pool = {"name": node, "resourceSliceCount": 1, "generation": 1}
    spec = {"driver": "d", "nodeName": node, "pool": pool, "devices": [{"name": "card"}]}
    return make("ResourceSlice", node, spec)


def member(at: int, node: str, meta: dict[str, Any], owner: str) -> Iterator[Any]:
    """A pod of the owner with its claims for a volume and for a device."""
    name, version = f"w-{at}", "batch/v1" if owner == "Job" else "apps/v1"
    reference = {"apiVersion": version, "kind": owner, "name": "w", "uid": "w", "controller": True}
    volume = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield pod(
        name,
        node,
        {"cpu": "1", GPU: "1"},
        labels={"app": "w"},
        metadata={"ownerReferences": [reference] if owner else []} | meta,
        volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": volume}}}],
        resourceClaims=[{"name": "r", "resourceClaimTemplateName": "card"}],
        status={
            "phase": "Running",
            "resourceClaimStatuses": [{"name": "r", "resourceClaimName": f"{name}-r"}],
        },
    )
    its = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    kept = {"ownerReferences": [its], "finalizers": ["kubernetes.io/pvc-protection"]}
    yield claim(f"{name}-v", "fast", of=f"v{at}", metadata=kept, status={"phase": "Bound"})
    device = {"request": "one", "driver": "d", "pool": node, "device": "card"}
    status = {
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
    }
    kept = {"ownerReferences": [its], "finalizers": ["resource.kubernetes.io/delete-protection"]}
    named = {"annotations": {"resource.kubernetes.io/pod-claim-name": "r"}}
    yield make("ResourceClaim", f"default/{name}-r", ASKED, metadata=kept | named, status=status)


def objects(meta: dict[str, Any], owner: str) -> Iterator[Any]:
    for name in "abc":
        yield from (node(name, pods=9, **{GPU: 4}), slices(name))
    yield make("DeviceClass", "cards")
    yield make("ResourceClaimTemplate", "default/card", {"spec": ASKED})
    if owner == "Job":
        yield workload("Job", "w", 2, {"cpu": 1}, completions=2, metadata={"uid": "w"})
    elif owner == "StatefulSet":
        yield workload("StatefulSet", "w", 2, {"cpu": 1}, metadata={"uid": "w"})
    for at, name in enumerate("ab"):
        yield from member(at, name, meta, owner)
    yield pod("urgent", requests={"cpu": 4}, priority=9)


@pytest.mark.share(4)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("meta", KEPT.values(), ids=KEPT)
def test_verbs_end_whatever_keeps_a_pod(meta: dict[str, Any], owner: str, verb: str) -> None:
    VERBS[verb](scheduler(objects(meta, owner)))
