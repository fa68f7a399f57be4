"""The pods that workloads lack; how many says the case `kube/missing_pods`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.objects.make import CONTAINERS, expand, owned, pod, workload

from moorage.errors import InputError
from moorage.kube import Cluster, Object, Pod, ReplicaSet

SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"

PARALLEL = {"podManagementPolicy": "Parallel"}


def names(result: Cluster) -> list[str]:
    return [item.name for item in result.pods]


def new(result: Cluster, *listed: str) -> list[Pod]:
    return [item for item in result.pods if item.name not in listed]


def active(
    kind: str, name: str, pod_name: str, phase: str = "Running", uid: str = "", **metadata: Any
) -> Object:
    return pod(pod_name, metadata=owned(kind, name, uid, **metadata), status={"phase": phase})


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_each_replica_has_a_name_and_a_uid_of_its_own(kind: str) -> None:
    owner = workload(kind, "web", {"replicas": 3}, metadata={"creationTimestamp": "2024-01-01T00:00:00Z"})
    made = expand(owner).pods
    assert len({item.name for item in made}) == 3
    assert len({item.metadata.uid for item in made}) == 3
    assert made == expand(owner).pods
    for item in made:
        assert re.fullmatch(f"web-{SUFFIX}", item.name)
        assert item.metadata.generate_name == "web-"
        assert item.namespace == "default"
        assert item.metadata.labels == {"app": "web"}
        assert item.metadata.creation_timestamp == "2024-01-01T00:00:00Z"
        assert item.status.phase == "Pending"
        assert item.spec.scheduler_name == "default-scheduler"
        (reference,) = item.metadata.owner_references
        assert (reference.kind, reference.name, reference.controller) == (kind, "web", True)
        assert reference.uid
    assert made[0].spec is made[1].spec


def test_names_do_not_collide() -> None:
    objects = [workload("ReplicaSet", "x" * 60 + end, {"replicas": 40}) for end in "ab"]
    made = names(expand(*objects))
    assert len(set(made)) == 80
    again = names(expand(*objects, pod(made[0])))
    assert len(set(again)) == 81


def test_deployment_makes_a_replica_set() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]},
    }
    result = expand(workload("Deployment", "web", {"replicas": 2, "template": template}))
    deployment, replica_set = result.others
    assert isinstance(replica_set, ReplicaSet)
    suffix = replica_set.name.removeprefix("web-")
    assert re.fullmatch("[bcdfghjklmnpqrstvwxz2456789]{10}", suffix)
    reference = replica_set.metadata.controller()
    assert reference is not None
    assert (reference.kind, reference.uid) == ("Deployment", deployment.metadata.uid)
    labels = {"app": "web", "pod-template-hash": suffix}
    assert replica_set.spec.selector is not None
    assert replica_set.spec.selector.match_labels == labels
    assert len(result.pods) == 2
    for item in result.pods:
        assert re.fullmatch(f"web-{suffix}-{SUFFIX}", item.name)
        assert item.metadata.labels == labels
        assert item.metadata.annotations == {"note": "x"}
        assert item.spec.containers[0].resources.requests == {"cpu": 1}
        owner = item.metadata.controller()
        assert owner is not None
        assert (owner.name, owner.uid) == (replica_set.name, replica_set.metadata.uid)


def test_hash_follows_the_template() -> None:
    def replica_set(**spec: Any) -> str:
        template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": CONTAINERS} | spec}
        return expand(workload("Deployment", "w", {"template": template})).others[1].name

    assert replica_set() == replica_set()
    assert replica_set() != replica_set(hostNetwork=True)


def listed_replica_set(name: str, replicas: int, app: str = "web", **metadata: Any) -> Object:
    """A ReplicaSet of the Deployment web; with another `app` its template is not that of web."""
    labels = {"app": app, "pod-template-hash": name.removeprefix("web-")}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": replicas, "template": template}
    return workload("ReplicaSet", name, spec, metadata=owned("Deployment", "web", **metadata))


def replicas_of(result: Cluster) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in result.pods:
        owner = item.metadata.controller()
        assert owner is not None
        counts[owner.name] = counts.get(owner.name, 0) + 1
    return counts


def test_replica_set_of_another_deployment_with_the_same_name() -> None:
    deployment = workload("Deployment", "web", {"replicas": 1}, metadata={"uid": "new"})
    old = workload("ReplicaSet", "web-1", {"replicas": 2}, metadata=owned("Deployment", "web", "old"))
    assert sorted(replicas_of(expand(deployment, old)).values()) == [1, 2]


def created(day: int) -> dict[str, Any]:
    return {"creationTimestamp": f"2024-01-0{day}T00:00:00Z"}


def revision(number: str) -> dict[str, Any]:
    return {"annotations": {"deployment.kubernetes.io/revision": number}}


def test_a_changed_template_grows_by_the_surge() -> None:
    deployment = workload("Deployment", "web", {"replicas": 5})
    old = listed_replica_set("web-1", 5, app="old")
    made = replicas_of(expand(deployment, old))
    assert made.pop("web-1") == 4  # of the pods that are not ready as many go as the budget leaves
    assert list(made.values()) == [3]  # 25% of 5, rounded up, and one in place of that


def test_deployment_finds_its_pods_without_replica_sets() -> None:
    """A dump of deployments and pods only: the pods tell which ReplicaSet they are from."""

    def of(suffix: str, name: str, day: int) -> Object:
        labels = {"app": "web", "pod-template-hash": suffix}
        return active("ReplicaSet", f"web-{suffix}", name, uid=f"rs-{suffix}", labels=labels, **created(day))

    pods = [of("aaa", "p1", 1), of("bbb", "p2", 2), of("bbb", "p3", 3)]
    stranger = active("ReplicaSet", "web-api-ccc", "p4", labels={"app": "api", "pod-template-hash": "ccc"})
    result = expand(workload("Deployment", "web", {"replicas": 5}), *pods, stranger)
    made = new(result, "p1", "p2", "p3", "p4")
    assert len(made) == 3  # as many as 5 pods and a surge of 2 leave room for
    owners = {(owner.name, owner.uid) for item in made if (owner := item.metadata.controller())}
    assert owners == {("web-bbb", "rs-bbb")}
    assert {item.metadata.labels["pod-template-hash"] for item in made} == {"bbb"}


def test_pods_of_a_stateful_set_have_their_claims() -> None:
    inside = {"containers": CONTAINERS, "volumes": [{"name": "data"}, {"name": "tmp"}]}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": inside}
    claims = [{"metadata": {"name": name}} for name in ("data", "logs")]
    spec = {"replicas": 3, "volumeClaimTemplates": claims, "template": template} | PARALLEL
    made = expand(workload("StatefulSet", "db", spec)).pods
    assert [item.name for item in made] == ["db-0", "db-1", "db-2"]
    assert made[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert made[1].metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert made[1].metadata.labels["controller-revision-hash"].startswith("db-")
    volumes = [
        (item.name, item.persistent_volume_claim.claim_name if item.persistent_volume_claim else None)
        for item in made[1].spec.volumes
    ]
    assert volumes == [("data", "data-db-1"), ("logs", "logs-db-1"), ("tmp", None)]


def test_too_many_pods_in_all() -> None:
    objects = [
        workload("ReplicaSet", name, {"replicas": count}) for name, count in (("a", 1), ("b", 2_000_000))
    ]
    with pytest.raises(InputError) as caught:
        expand(*objects)
    assert str(caught.value) == (
        "ReplicaSet default/b: spec.replicas: 2000000 pods to create would make more than 2000000 in all"
    )
