"""Claims that are deleted stay while pods use them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import machine, pods, scheduler, template
from tests.make import make, node
from tests.objects.make import owned, pod, workload
from tests.scheduler.groups.gang_kit import gang, members

from moorage import Scheduler
from moorage.kube import Cluster, Object, PersistentVolumeClaim, Pod, PodGroup, PodStatus

PROTECTED = {"finalizers": ["kubernetes.io/pvc-protection"]}


def claim(name: str, **metadata: Any) -> Object:
    return make("PersistentVolumeClaim", name, {"storageClassName": "x"}, metadata=metadata)


def user(name: str, node: str) -> Object:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    return pod(name, {"nodeName": node, "volumes": volumes})


def claims(one: Scheduler) -> dict[str, bool]:
    """The claims, and whether each is being deleted."""
    one.sync()
    found: list[PersistentVolumeClaim] = one.client.list(PersistentVolumeClaim)[0]
    return {each.name: each.metadata.deletion_timestamp is not None for each in found}


@pytest.mark.parametrize("metadata", [{}, PROTECTED])
def test_a_claim_in_use_goes_with_the_last_pod_on_a_node(metadata: dict[str, Any]) -> None:
    one = scheduler(machine("n"), claim("c", **metadata), user("p", "n"), user("q", "n"), user("waits", ""))
    one.change.delete("pvc/c")
    assert claims(one) == {"c": True}
    one.change.delete("pod/p")
    assert claims(one) == {"c": True}
    branch = one.fork()
    with one.transaction():
        one.change.delete("pod/q")
        assert claims(one) == {}
    assert claims(one) == {"c": True}
    for each in (one, branch):
        each.change.delete("pod/q")
        assert claims(each) == {}


@pytest.mark.parametrize("metadata", [{}, PROTECTED])
def test_a_claim_that_no_pod_on_a_node_uses_goes_at_once(metadata: dict[str, Any]) -> None:
    one = scheduler(machine("n"), claim("c", **metadata), user("waits", ""))
    one.change.delete("pvc/c")
    assert claims(one) == {}


def test_other_finalizers_keep_a_claim() -> None:
    one = scheduler(machine("n"), claim("c", finalizers=[*PROTECTED["finalizers"], "example.com/mine"]))
    one.change.delete("pvc/c")
    assert claims(one) == {"c": True}
    left: PersistentVolumeClaim = one.client.get(PersistentVolumeClaim, "c", "default")
    assert left.metadata.finalizers == ("example.com/mine",)


def test_the_next_pod_of_a_name_gets_a_claim_of_its_own() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "x"}}}}]
    spec = {"replicas": 1, "template": template("db", volumes=volumes)}
    first = pod("db-0", {"nodeName": "n", "volumes": volumes}, metadata=owned("StatefulSet", "db", uid=""))
    first = replace(first, metadata=replace(first.metadata, uid="first"))
    held = claim("db-0-v", **owned("Pod", "db-0", uid="first"), **PROTECTED)
    one = scheduler(machine("n"), workload("StatefulSet", "db", spec), first, held)
    before = one.client.get(PersistentVolumeClaim, "db-0-v", "default")
    one.change.delete("pod/db-0")
    assert list(pods(one)) == ["db-0"]
    assert claims(one) == {"db-0-v": False}
    assert one.client.get(PersistentVolumeClaim, "db-0-v", "default").metadata.uid != before.metadata.uid


# ---- pod groups --------------------------------------------------------------------------------------------


def grouped(*pods: Any, gate: bool = True, **metadata: Any) -> Scheduler:
    """A gang of two, and pods, of which the gang has those without a node."""
    group = gang("g", 2)
    group = replace(group, metadata=replace(group.metadata, **metadata))
    gates = {"GenericWorkload": True} if gate else {}
    return Scheduler(
        Cluster(nodes=[node("n")], pods=list(pods), others=[group]),
        kubernetes_version="1.37",
        feature_gates=gates,
    )


def groups(one: Scheduler) -> dict[str, bool]:
    """The groups, and whether each is being deleted."""
    one.sync()
    found: list[PodGroup] = one.client.list(PodGroup)[0]
    return {each.name: each.metadata.deletion_timestamp is not None for each in found}


@pytest.mark.parametrize("metadata", [{}, {"finalizers": ("scheduling.k8s.io/podgroup-protection",)}])
def test_a_group_goes_with_the_last_of_its_pods(metadata: dict[str, Any]) -> None:
    """Until then they are placed as a gang."""
    one = grouped(*members("g", 2), **metadata)
    one.change.delete("podgroup/g")
    assert groups(one) == {"g": True}
    assert len(one.run().placements) == 2
    one.change.delete("pod/g-0")
    assert groups(one) == {"g": True}
    one.change.delete("pod/g-1")
    assert groups(one) == {}


def test_pods_that_have_ended_do_not_keep_a_group() -> None:
    ended = [replace(each, status=PodStatus(phase="Succeeded")) for each in members("g", 1)]
    one = grouped(*ended)
    one.change.delete("podgroup/g")
    assert groups(one) == {}


def test_a_pod_that_ends_lets_its_group_go() -> None:
    one = grouped(*members("g", 1))
    one.change.delete("podgroup/g")
    assert groups(one) == {"g": True}
    (current,) = one.client.list(Pod)[0]
    one.client.update(replace(current, status=PodStatus(phase="Failed")))
    one.sync()
    assert groups(one) == {}


def test_a_group_goes_at_once_where_groups_are_ignored() -> None:
    one = grouped(*members("g", 2), gate=False)
    one.change.delete("podgroup/g")
    assert groups(one) == {}
