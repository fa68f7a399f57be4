"""Pods of operators whose objects are in no store: a drained one comes back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.workloads.make import machine, pods, scheduler
from tests.make import make

from moorage import Scheduler
from moorage.kube import Object, Pod

NODES = [machine(name) for name in "ab"]
STRIMZI = "core.strimzi.io/v1beta2", "StrimziPodSet"


def owned(api_version: str, kind: str, name: str = "x-0", **meta: Any) -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "o", "controller": True}
    spec = {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    metadata = {"namespace": "default", "uid": "old", "ownerReferences": [reference]}
    return make("Pod", name, spec, metadata=metadata | meta)


def drained(pod: Object) -> Scheduler:
    one = scheduler(*NODES, pod)
    one.change.drain("a")
    one.run()
    return one


@pytest.mark.parametrize("kind", [STRIMZI, ("postgresql.cnpg.io/v1", "Cluster")])
def test_a_pod_that_an_operator_names_comes_back_under_its_name(kind: tuple[str, str]) -> None:
    one = drained(owned(*kind))
    assert pods(one) == {"x-0": "b"}
    assert one.client.get(Pod, "x-0", "default").metadata.uid != "old"


def test_a_pod_with_a_generated_name_comes_back_under_another() -> None:
    one = drained(owned("ray.io/v1", "RayCluster", "x-head-old", generateName="x-head-"))
    ((name, node),) = pods(one).items()
    assert (name.startswith("x-head-"), name != "x-head-old", node) == (True, True, "b")


@pytest.mark.parametrize("kind", [("batch.volcano.sh/v1alpha1", "Job"), ("x.io/v1", "Thing")])
def test_a_pod_of_a_batch_workload_or_of_an_unknown_kind_stays_away(kind: tuple[str, str]) -> None:
    assert pods(drained(owned(*kind))) == {}


def test_a_rollback_takes_the_new_pod_back() -> None:
    one = scheduler(*NODES, owned(*STRIMZI))
    with one.transaction():
        one.change.drain("a")
        one.run()
        assert pods(one) == {"x-0": "b"}
    assert pods(one) == {"x-0": "a"}


def test_pods_of_a_namespace_that_is_deleted_stay_away() -> None:
    one = scheduler(*NODES, make("Namespace", "shop"), owned(*STRIMZI, namespace="shop"))
    one.change.delete("namespace/shop")
    one.run()
    assert pods(one) == {}
