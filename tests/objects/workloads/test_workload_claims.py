"""Claims that controllers make."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import ephemeral_claims
from tests.make import make
from tests.objects.make import CONTAINERS, expand, node, pod

from moorage import Scheduler
from moorage.kube import Cluster, Object, PersistentVolumeClaim

ASKS = {
    "storageClassName": "k",
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
CLASS = make("StorageClass", "k", provisioner="storage.example.com")
NODE = node("n", status={"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 20}})
DELETED = "2026-01-01T00:00:00Z"


def stateful_set(name: str, *templates: str, replicas: int = 2, **metadata: Any) -> Object:
    claims = [{"metadata": {"name": one, "labels": {"own": "l"}}, "spec": ASKS} for one in templates]
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": CONTAINERS}},
        "volumeClaimTemplates": claims,
        "podManagementPolicy": "Parallel",
    }
    return make("StatefulSet", name, spec, metadata=metadata)


def with_ephemeral(name: str, *volumes: str, **metadata: Any) -> Object:
    template = {"metadata": {"labels": {"own": "l"}, "annotations": {"a": "b"}}, "spec": ASKS}
    listed = [{"name": one, "ephemeral": {"volumeClaimTemplate": template}} for one in volumes]
    return pod(name, {"volumes": [{"name": "config"}, *listed]}, metadata=metadata)


def listed_claim(name: str, **metadata: Any) -> Object:
    return make("PersistentVolumeClaim", name, ASKS, metadata=metadata)


def claims(found: Cluster) -> dict[str, PersistentVolumeClaim]:
    all_of = [one for one in found.others if isinstance(one, PersistentVolumeClaim)]
    out = {one.key: one for one in all_of}
    assert len(out) == len(all_of)
    return out


def test_claims_of_a_stateful_set() -> None:
    made = claims(expand(stateful_set("db", "data", "logs", namespace="far", creationTimestamp=DELETED)))
    assert list(made) == ["far/data-db-0", "far/logs-db-0", "far/data-db-1", "far/logs-db-1"]
    for one in made.values():
        assert one.spec.storage_class_name == "k"
        assert one.spec.resources.requests == {"storage": "1Gi"}
        assert one.status.phase == "Pending"
        assert one.metadata.labels == {"own": "l", "app": "db"}
        assert one.metadata.creation_timestamp == DELETED
        assert one.metadata.owner_references == ()  # they outlive the StatefulSet
    assert len({one.metadata.uid for one in made.values()} | {""}) == 5


def test_claims_of_ephemeral_volumes() -> None:
    found = expand(with_ephemeral("p", "a", "b", uid="u", namespace="far"))
    made = claims(found)
    assert list(made) == ["far/p-a", "far/p-b"]
    for one in made.values():
        owner = one.metadata.controller()
        assert owner is not None
        assert (owner.kind, owner.name, owner.uid, owner.block_owner_deletion) == ("Pod", "p", "u", True)
        assert (one.metadata.labels, one.metadata.annotations) == ({"own": "l"}, {"a": "b"})
        assert (one.spec.storage_class_name, one.status.phase) == ("k", "Pending")


def test_listed_claims_are_not_made_twice() -> None:
    listed = [listed_claim("data-db-0", uid="u"), listed_claim("p-a", uid="v")]
    elsewhere = listed_claim("data-db-1", namespace="far")
    made = claims(expand(stateful_set("db", "data"), with_ephemeral("p", "a"), elsewhere, *listed))
    assert set(made) == {f"default/{name}" for name in ("data-db-0", "data-db-1", "p-a")} | {"far/data-db-1"}
    assert (made["default/data-db-0"].metadata.uid, made["default/p-a"].metadata.uid) == ("u", "v")
    assert made["default/p-a"].metadata.controller() is None


def test_pods_that_are_there_have_their_claims() -> None:
    """Those of a pod that is listed are made where they lack, not those of a StatefulSet that goes."""
    made = claims(expand(stateful_set("db", "data"), pod("db-0")))
    assert set(made) == {"default/data-db-0", "default/data-db-1"}
    assert claims(expand(stateful_set("db", "data", deletionTimestamp=DELETED))) == {}
    assert claims(expand(stateful_set("db", "data", replicas=0))) == {}


def test_pods_of_workloads_have_ephemeral_volumes_too() -> None:
    volumes = [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": ASKS}}}]
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": CONTAINERS, "volumes": volumes}}
    found = expand(make("ReplicaSet", "w", {"replicas": 2, "template": template}))
    made = claims(found)
    assert set(made) == {f"{one.key}-e" for one in found.pods}
    owners = {key: one.metadata.controller() for key, one in made.items()}
    assert {key: owner.uid for key, owner in owners.items() if owner} == {
        f"{one.key}-e": one.metadata.uid for one in found.pods
    }


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        ([with_ephemeral("a-b", "c"), with_ephemeral("a", "b-c")], "a-b"),
        ([with_ephemeral("a", "b-c"), with_ephemeral("a-b", "c")], "a"),
        ([with_ephemeral("data", "db-0"), stateful_set("db", "data", replicas=1)], "data"),
        ([stateful_set("b-c", "a", replicas=1), stateful_set("c", "a-b", replicas=1)], None),
    ],
)
def test_of_two_claims_of_one_name_the_first_is_made(objects: list[Object], owner: str | None) -> None:
    found = expand(NODE, CLASS, *objects)
    (made,) = claims(found).values()
    reference = made.metadata.controller()
    assert (reference and reference.name) == owner
    result = Scheduler(found).run()
    assert len(result.placements) + len(result.unschedulable) == 2
    not_theirs = {key for key, why in result.unschedulable.items() if "pod is not owner" in why.message}
    assert not_theirs == set(result.unschedulable)
    others = {"default/db-0"} if owner == "data" else set()  # a claim of its template may be that of others
    assert owner is None or set(result.placements) == {f"default/{owner}"} | others


def test_claims_that_are_made_are_bound() -> None:
    found = expand(NODE, CLASS, stateful_set("db", "data"), with_ephemeral("p", "a"))
    one = Scheduler(found)
    assert set(one.run().placements) == {"default/db-0", "default/db-1", "default/p"}
    assert {claim.status.phase for claim in one.client.list(PersistentVolumeClaim)[0]} == {"Bound"}


def test_pods_that_go_get_no_claims() -> None:
    assert claims(expand(with_ephemeral("p", "a", deletionTimestamp=DELETED))) == {}
    bare = pod("p", {"volumes": [{"name": "a", "ephemeral": {}}, {"name": "b"}]})
    assert ephemeral_claims([bare]) == []  # type: ignore[list-item]
