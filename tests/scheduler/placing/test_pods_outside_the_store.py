"""Pods that a caller gives, with volumes or devices, and that the store does not have."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.core.inside import dump

import moorage as mo
from moorage.errors import MoorageError
from moorage.objects import Pod

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
VOLUME: dict[str, Any] = {
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
CLAIM: dict[str, Any] = {
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


# ---- with evictions ----------------------------------------------------------------------------------------


def asking(cpu: int) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]


def high(asked: dict[str, Any]) -> dict[str, Any]:
    """The pod with a priority and one cpu."""
    return pod(**asked["spec"] | {"priority": 9, "containers": asking(1)})


def crowded(*others: dict[str, Any]) -> mo.Scheduler:
    """A node without room, with one volume of the CSI driver at most."""
    low = pod("low", nodeName="n1", containers=asking(4))
    driver = {"name": "d.x", "nodeID": "n1", "allocatable": {"count": 1}}
    limits = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}}
    return mo.Scheduler(mo.load(NODE, VOLUME, CLAIM, limits | {"spec": {"drivers": [driver]}}, low, *others))


@pytest.mark.parametrize("kind", ["claim", "inline CSI"])
def test_pods_whose_volumes_suit_every_node_are_placed_at_once(kind: str) -> None:
    one = crowded()
    before = dump(one.cache.state)
    with one.preempt_pods([high(PODS[kind])]) as done:
        assert (done.rows.tolist(), [victim.name for victim in done.victims(0)]) == ([0], ["low"])
    assert dump(one.cache.state) == before
    one.preempt_pods([high(PODS[kind])]).commit()
    assert one.client.list(Pod)[0] == []
    assert [placed.key for placed in one.cache.state.pods()] == ["default/p"]


def test_pods_whose_volumes_are_scored_are_not_placed_at_once() -> None:
    one = mo.Scheduler(mo.load(NODE, VOLUME, CLAIM), kubernetes_version="1.37")
    with pytest.raises(MoorageError, match="plugins decide node by node"):
        one.preempt_pods([PODS["claim"]])


def test_volumes_of_pods_placed_at_once_count_for_the_next() -> None:
    """The second claim is one volume too many for the driver once the first pod is there."""
    claim, volume = deepcopy(CLAIM), deepcopy(VOLUME)
    claim["metadata"] |= {"name": "d", "uid": "w"}
    claim["spec"]["volumeName"] = volume["metadata"]["name"] = "pw"
    volume["spec"]["claimRef"] |= {"name": "d", "uid": "w"}
    volume["spec"]["csi"]["volumeHandle"] = "i"
    one = crowded(claim, volume)
    first = high(PODS["claim"])
    second = high(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}]))
    second["metadata"] = {"name": "q"}
    before = dump(one.cache.state)
    for asked in (first, second):
        one.preempt_pods([asked]).undo()
    with pytest.raises(MoorageError, match="pod default/q cannot be placed at once: plugins decide node by"):
        one.preempt_pods([first, second])
    assert dump(one.cache.state) == before


@pytest.mark.parametrize("kind", ["disk", "device"])
def test_a_run_in_a_transaction_evicts_for_the_others(kind: str) -> None:
    asked, one = high(PODS[kind]), crowded(DEVICES, CLASS, DEVICE_CLAIM)
    with pytest.raises(MoorageError, match=r"create the pod in a transaction and call run\(\)"):
        one.preempt_pods([asked])
    with one.transaction():
        one.client.create(mo.load(asked).pods[0])
        result = one.run()
        assert (result.placements, list(result.evicted)) == ({"default/p": "n1"}, ["default/low"])
    assert [kept.key for kept in one.client.list(Pod)[0]] == ["default/low"]
