"""Quotas of objects and claims in a store; for files see the case `kube/limit_ranges_and_quotas`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import claim, make, node, scheduler, storage_class, template, workload

import moorage as mo
from moorage.errors import InputError
from moorage.kube import Object, PersistentVolumeClaim, build_cluster


def quota(**hard: str) -> Object:
    made: Object = make("ResourceQuota", "q", {"hard": hard})
    return made


def claims(one: mo.Scheduler) -> list[str]:
    one.sync()
    return sorted(each.name for each in one.client.list(PersistentVolumeClaim)[0])


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_pod_whose_claim_is_refused_is_not_made(policy: str) -> None:
    own = [{"metadata": {"name": "data"}, "spec": mo.object_to_dict(claim("c", "disk"))["spec"]}]
    database = workload("StatefulSet", "db", 2, volumeClaimTemplates=own, podManagementPolicy=policy)
    one = scheduler(node("a"), storage_class(provisioner="csi"), quota(persistentvolumeclaims="1"), database)
    one.run()
    assert claims(one) == ["data-db-0"]
    (refused,) = one.ask.refused_pods()
    assert refused.pod.name == "db-1"
    assert refused.message.startswith('failed to create PVC data-db-1: persistentvolumeclaims "data-db-1" is')
    one.change.apply(quota(persistentvolumeclaims="2"))
    one.run()
    assert one.ask.refused_pods() == []
    assert claims(one) == ["data-db-0", "data-db-1"]


def test_listed_claims_are_what_a_quota_begins_with() -> None:
    bound = claim("a", metadata={"uid": "from-a-server", "resourceVersion": "7"})
    build_cluster([quota(persistentvolumeclaims="0"), bound])
    with pytest.raises(InputError):
        build_cluster([quota(persistentvolumeclaims="1"), bound, claim("b")])


def test_a_deployment_whose_replica_set_is_refused_waits() -> None:
    one = scheduler(node("a"), quota(**{"count/replicasets.apps": "0"}), workload("Deployment", "web", 1))
    one.run()
    assert list(one.ask.refusals()) == ["Deployment default/web"]
    one.change.delete("resourcequota/default/q")
    assert list(one.run().placements.values()) == ["a"]


def test_a_class_that_comes_later_ends_a_refusal() -> None:
    lost = workload("ReplicaSet", "web", 1, template=template("web", priorityClassName="late"))
    one = scheduler(node("a"), lost)
    assert one.ask.refusals()
    one.change.apply(make("PriorityClass", "late", value=7))
    one.run()
    assert one.ask.refusals() == {}
    pods: list[Any] = one.client.list(mo.Pod)[0]
    assert [(pod.spec.priority, pod.spec.node_name) for pod in pods] == [(7, "a")]
