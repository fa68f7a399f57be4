"""Pods that a caller gives, with volumes or devices, and that the store does not have."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.objects import Pod

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "pv"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "csi": {"driver": "d.x", "volumeHandle": "h"},
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "u"},
    },
    "status": {"phase": "Bound"},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "c",
        "namespace": "default",
        "uid": "u",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "volumeName": "pv",
        "resources": {"requests": {"storage": "1Gi"}},
    },
    "status": {"phase": "Bound"},
}
DEVICES = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.x",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [{"name": "d0"}],
    },
}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "dc"},
    "spec": {"extendedResourceName": "example.com/dra"},
}
DEVICE_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "rc", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "dc"}}]}},
}
DRA = {"example.com/dra": "1"}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x"}]
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


PODS = {
    "claim": pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
    "inline CSI": pod(volumes=[{"name": "v", "csi": {"driver": "d.x"}}]),
    "disk": pod(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "x"}}]),
    "device": pod(resourceClaims=[{"name": "r", "resourceClaimName": "rc"}]),
    "extended": pod(containers=[{"name": "c", "image": "x", "resources": {"requests": DRA, "limits": DRA}}]),
}
given = pytest.mark.parametrize("asked", PODS.values(), ids=PODS)


def scheduler() -> mo.Scheduler:
    return mo.Scheduler(mo.load(NODE, VOLUME, CLAIM, DEVICES, CLASS, DEVICE_CLAIM))


@given
def test_they_are_placed(asked: dict[str, Any]) -> None:
    assert scheduler().schedule_pods([asked]).placements == {"default/p": "n1"}
    assert scheduler().schedule_one(asked).node == "n1"


@given
def test_a_dry_run_leaves_nothing(asked: dict[str, Any]) -> None:
    tried = scheduler()
    assert tried.schedule_pods([asked], dry_run=True).placements == {"default/p": "n1"}
    assert tried.client.list(Pod)[0] == []
    assert tried.schedule_pods([asked]).placements == {"default/p": "n1"}


@given
def test_one_that_fits_nowhere_does_not_stay(asked: dict[str, Any]) -> None:
    tried = scheduler()
    tried.cordon(["n1"])
    failed = tried.schedule_pods([asked]).unschedulable["default/p"]
    assert "1 node(s) were unschedulable" in failed.message
    assert tried.schedule_one(asked).node is None
    assert tried.client.list(Pod)[0] == []


def test_the_second_of_two_for_one_device_fits_nowhere() -> None:
    second = {**PODS["extended"], "metadata": {"name": "q"}}
    result = scheduler().schedule_pods([PODS["extended"], second])
    assert result.placements == {"default/p": "n1"}
    assert list(result.unschedulable) == ["default/q"]
