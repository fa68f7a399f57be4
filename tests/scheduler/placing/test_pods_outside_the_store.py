"""Pods that a caller gives, with volumes or devices, and that the store does not have."""

from __future__ import annotations

from typing import Any

import pytest
from tests import make as kit
from tests.core.inside import dump
from tests.make import Json, claim, node, volume, written

import moorage as mo
from moorage.errors import MoorageError
from moorage.kube import Object, Pod

DRIVER = "d.x"
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def bound(name: str, of: str) -> list[Object]:
    """A claim and its volume, of the CSI driver."""
    ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": name}
    source = {"driver": DRIVER, "volumeHandle": of}
    return [
        claim(name, "s", of=of, metadata=BOUND | {"uid": name}, status={"phase": "Bound"}),
        volume(of, "s", claimRef=ref, csi=source, status={"phase": "Bound"}),
    ]


STORAGE = [node("n1", pods="110"), *bound("c", "pv")]
POOL = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "dc"}}
DEVICES = [
    kit.make(
        "ResourceSlice", "s", {"driver": DRIVER, "pool": POOL, "nodeName": "n1", "devices": [{"name": "d0"}]}
    ),
    kit.make("DeviceClass", "dc", {"extendedResourceName": "example.com/dra"}),
    kit.make("ResourceClaim", "default/rc", {"devices": {"requests": [REQUEST]}}),
]


def pod(name: str = "p", cpu: int = 0, **spec: Any) -> Json:
    """A pod as a caller writes it."""
    container = {"name": "c", "image": "x"} | ({"resources": {"requests": {"cpu": cpu}}} if cpu else {})
    return written("v1/Pod", name, {"containers": [container]} | spec)


def using(name: str) -> list[Json]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]


DRA = {"example.com/dra": "1"}
PODS = {
    "claim": pod(volumes=using("c")),
    "inline CSI": pod(volumes=[{"name": "v", "csi": {"driver": DRIVER}}]),
    "disk": pod(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "x"}}]),
    "device": pod(resourceClaims=[{"name": "r", "resourceClaimName": "rc"}]),
    "extended": pod(containers=[{"name": "c", "image": "x", "resources": {"requests": DRA, "limits": DRA}}]),
}
given = pytest.mark.parametrize("asked", PODS.values(), ids=PODS)


def scheduler() -> mo.Scheduler:
    return kit.scheduler(STORAGE, DEVICES)


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
    tried.change.cordon(["n1"])
    failed = tried.schedule_pods([asked]).unschedulable["default/p"]
    assert "1 node(s) were unschedulable" in failed.message
    assert tried.schedule_one(asked).node is None
    assert tried.client.list(Pod)[0] == []


def test_the_second_of_two_for_one_device_fits_nowhere() -> None:
    second = PODS["extended"] | {"metadata": {"name": "q"}}
    result = scheduler().schedule_pods([PODS["extended"], second])
    assert result.placements == {"default/p": "n1"}
    assert list(result.unschedulable) == ["default/q"]


# ---- with evictions ----------------------------------------------------------------------------------------


def high(asked: Json) -> Json:
    """The pod with a priority and one cpu."""
    more = {"priorityClassName": "high", "containers": pod(cpu=1)["spec"]["containers"]}
    return pod(**asked["spec"] | more)


def crowded(*others: Object) -> mo.Scheduler:
    """A node without room, with one volume of the CSI driver at most."""
    driver = {"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 1}}
    low = kit.pod("low", "n1", {"cpu": 4})
    classes = kit.make("PriorityClass", "high", value=9)
    return kit.scheduler(STORAGE, classes, kit.make("CSINode", "n1", {"drivers": [driver]}), low, others)


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
    one = kit.scheduler(STORAGE, kubernetes_version="1.37")
    with pytest.raises(MoorageError, match="plugins decide node by node"):
        one.preempt_pods([PODS["claim"]])


def test_volumes_of_pods_placed_at_once_count_for_the_next() -> None:
    """The second claim is one volume too many for the driver once the first pod is there."""
    one = crowded(*bound("d", "pw"))
    first, second = high(PODS["claim"]), high(pod(volumes=using("d"))) | {"metadata": {"name": "q"}}
    before = dump(one.cache.state)
    for asked in (first, second):
        one.preempt_pods([asked]).undo()
    with pytest.raises(MoorageError, match="pod default/q cannot be placed at once: plugins decide node by"):
        one.preempt_pods([first, second])
    assert dump(one.cache.state) == before


@pytest.mark.parametrize("kind", ["disk", "device"])
def test_a_run_in_a_transaction_evicts_for_the_others(kind: str) -> None:
    asked, one = high(PODS[kind]), crowded(*DEVICES)
    with pytest.raises(MoorageError, match=r"create the pod in a transaction and call run\(\)"):
        one.preempt_pods([asked])
    with one.transaction():
        one.client.create(asked)
        result = one.run()
        assert (result.placements, list(result.evicted)) == ({"default/p": "n1"}, ["default/low"])
    assert [kept.key for kept in one.client.list(Pod)[0]] == ["default/low"]
