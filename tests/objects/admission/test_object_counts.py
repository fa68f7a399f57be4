"""Quotas that count objects, and limit ranges of claims: for files, and in a store."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import machine, replicas, template
from tests.objects.make import make

import moorage as mo
from moorage import Scheduler
from moorage.errors import InputError
from moorage.objects import Object, PersistentVolumeClaim, build_cluster

FORBIDDEN = 'deployments.apps "b" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, '
FORBIDDEN += "used: count/deployments.apps=1, limited: count/deployments.apps=1"


def quota(**hard: str) -> Object:
    return make("ResourceQuota", "q", {"hard": hard})


def claim(name: str, storage: str = "1Gi", storage_class: str = "", **meta: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return make("PersistentVolumeClaim", name, spec, metadata=meta)


def database(count: int, **spec: Any) -> Object:
    own: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    own |= {"storageClassName": "fast"}
    claims = [{"metadata": {"name": "data"}, "spec": own}]
    return replicas("StatefulSet", "db", count, volumeClaimTemplates=claims, **spec)


def claims(one: Scheduler) -> list[str]:
    one.sync()
    found: list[PersistentVolumeClaim] = one.client.list(PersistentVolumeClaim)[0]
    return sorted(each.name for each in found)


def test_a_manifest_beyond_a_quota_of_objects_is_refused() -> None:
    files = quota(**{"count/deployments.apps": "1"}), replicas("Deployment", "a", 1)
    build_cluster(files)
    with pytest.raises(InputError) as caught:
        build_cluster([*files, replicas("Deployment", "b", 1)])
    assert FORBIDDEN in str(caught.value)


def test_apply_refuses_an_object_beyond_a_quota() -> None:
    one = mo.Scheduler(
        build_cluster([quota(**{"count/deployments.apps": "1"}), replicas("Deployment", "a", 1)])
    )
    with pytest.raises(InputError) as caught:
        one.apply(replicas("Deployment", "b", 1))
    assert FORBIDDEN in str(caught.value)
    one.delete("deploy/a")
    one.apply(replicas("Deployment", "b", 1))


@pytest.mark.parametrize(
    ("hard", "text"),
    [
        ({"persistentvolumeclaims": "1"}, "requested: persistentvolumeclaims=1"),
        ({"count/persistentvolumeclaims": "1"}, "requested: count/persistentvolumeclaims=1"),
        ({"requests.storage": "3Gi"}, "requested: requests.storage=2Gi, used: requests.storage=2Gi"),
        ({"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}, "requested: fast.storageclass"),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "3Gi"}, "requested: fast.storageclass"),
        ({"slow.storageclass.storage.k8s.io/requests.storage": "1Gi"}, ""),
        ({"persistentvolumeclaims": "2", "requests.storage": "4Gi"}, ""),
    ],
)
def test_claims_count_by_number_storage_and_class(hard: dict[str, str], text: str) -> None:
    files = [quota(**hard), claim("a", "2Gi", "fast"), claim("b", "2Gi", "fast")]
    if not text:
        build_cluster(files)
        return
    with pytest.raises(InputError) as caught:
        build_cluster(files)
    assert f'persistentvolumeclaims "b" is forbidden: exceeded quota: q, {text}' in str(caught.value)


def test_a_quota_with_scopes_counts_no_objects() -> None:
    scoped = make("ResourceQuota", "q", {"hard": {"persistentvolumeclaims": "0"}, "scopes": ["BestEffort"]})
    build_cluster([scoped, claim("a")])


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (
            {"max": {"storage": "1Gi"}},
            "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi",
        ),
        (
            {"min": {"storage": "3Gi"}},
            "minimum storage usage per PersistentVolumeClaim is 3Gi, but request is 2Gi",
        ),
        ({"min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}, ""),
    ],
)
def test_limits_of_claims(bounds: dict[str, Any], text: str) -> None:
    limits = make("LimitRange", "l", {"limits": [{"type": "PersistentVolumeClaim"} | bounds]})
    if not text:
        build_cluster([limits, claim("a", "2Gi")])
        return
    with pytest.raises(InputError) as caught:
        build_cluster([limits, claim("a", "2Gi")])
    assert f'persistentvolumeclaims "a" is forbidden: {text}' in str(caught.value)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_pod_whose_claim_is_refused_is_not_made(policy: str) -> None:
    hard = quota(persistentvolumeclaims="1")
    fast = make("StorageClass", "fast", provisioner="csi", volumeBindingMode="WaitForFirstConsumer")
    one = mo.Scheduler(build_cluster([machine("a"), fast, hard, database(2, podManagementPolicy=policy)]))
    one.run()
    assert claims(one) == ["data-db-0"]
    (refused,) = one.refused_pods()
    assert refused.pod.name == "db-1"
    assert refused.message.startswith('failed to create PVC data-db-1: persistentvolumeclaims "data-db-1" is')
    one.apply(quota(persistentvolumeclaims="2"))
    one.run()
    assert one.refused_pods() == []
    assert claims(one) == ["data-db-0", "data-db-1"]


def test_listed_claims_are_what_a_quota_begins_with() -> None:
    bound = claim("a", uid="from-a-server", resourceVersion="7")
    build_cluster([quota(persistentvolumeclaims="0"), bound])
    with pytest.raises(InputError):
        build_cluster([quota(persistentvolumeclaims="1"), bound, claim("b")])


def test_a_deployment_whose_replica_set_is_refused_waits() -> None:
    hard = quota(**{"count/replicasets.apps": "0"})
    one = mo.Scheduler(build_cluster([machine("a"), hard, replicas("Deployment", "web", 1)]))
    one.run()
    assert list(one.refusals()) == ["Deployment default/web"]
    one.delete("resourcequota/default/q")
    assert list(one.run().placements.values()) == ["a"]


def test_a_class_that_comes_later_ends_a_refusal() -> None:
    spec = {"template": template("web", priorityClassName="late")}
    lost = make("ReplicaSet", "web", {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}} | spec)
    one = mo.Scheduler(build_cluster([machine("a"), lost]))
    assert one.refusals()
    one.apply(make("PriorityClass", "late", value=7))
    one.run()
    assert one.refusals() == {}
    (made,) = one.client.list(mo.Pod)[0]
    assert (made.spec.priority, made.spec.node_name) == (7, "a")
