"""Queues that are not active, and settings that are refused; bad objects are in the case
`kube/refused_queues`."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.errors import InputError
from moorage.kube import decode_object
from moorage.queues import Kueue, Settings

Json = dict[str, Any]


def kind(name: str, label: str, spec: Json, version: str = "v1beta2", **metadata: Any) -> Json:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": name,
        "metadata": {"name": label, **metadata},
        "spec": spec,
    }


def quota(**fields: Any) -> Json:
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 4} | fields]}
    return {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}


def queue(spec: Json, version: str = "v1beta2") -> Json:
    return kind("ClusterQueue", "q", {"namespaceSelector": {}} | spec, version)


FLAVOR = kind("ResourceFlavor", "f", {})
LOCAL = kind("LocalQueue", "lq", {"clusterQueue": "q"}, namespace="d")


def workload(cpu: str, name: str = "w", **resources: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, **resources}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": "lq", "podSets": [pods]}
    created = "2026-01-01T00:00:00Z"
    return kind("Workload", name, spec, namespace="d", uid=name, creationTimestamp=created)


def kueue(*objects: Json) -> Kueue:
    return Kueue([decode_object(each) for each in objects])


def test_an_older_version_is_converted() -> None:
    old = quota() | {
        "cohort": "co",
        "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        "admissionChecks": ["check"],
    }
    new = quota() | {
        "cohortName": "co",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]},
    }
    assert decode_object(queue(old, "v1beta1")) == decode_object(queue(new))
    spec = {"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "priorityClassName": "high"}
    converted = decode_object(kind("Workload", "w", spec, "v1beta1"))
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    assert converted == decode_object(kind("Workload", "w", {"priorityClassRef": ref}))


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([queue(quota())], "references missing ResourceFlavor(s): f"),
        (
            [
                *(FLAVOR, queue(quota() | {"cohortName": "a"})),
                *(kind("Cohort", name, {"parentName": parent}) for name, parent in ("ab", "ba")),
            ],
            "cohort has a cycle",
        ),
        ([FLAVOR, queue(quota() | {"stopPolicy": "Hold"})], "is stopped"),
    ],
)
def test_a_queue_that_is_not_active_says_why(objects: list[Json], why: str) -> None:
    waits = kueue(*objects, LOCAL, workload("1"))
    assert waits.snapshot.queues["q"].inactive == f"Can't admit new workloads: {why}."
    assert waits.run() == []
    assert waits.workloads["d/w"].conditions["QuotaReserved"].message == "ClusterQueue q is inactive"


def test_a_queue_admits_once_what_it_refers_to_is_there() -> None:
    waits = kueue(queue(quota()), LOCAL, workload("1"))
    flavor = decode_object(FLAVOR)
    waits.apply(flavor)
    assert [each.workload for cycle in waits.run() for each in cycle.admitted] == ["d/w"]


def test_new_limits_of_a_namespace_count_for_what_waits() -> None:
    waits = kueue(FLAVOR, queue(quota()), LOCAL, workload("9"))
    assert [*waits.run()[0].waiting] == ["d/w"]
    limits = {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}
    meta = {"name": "l", "namespace": "d"}
    waits.apply(decode_object({"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": limits}))
    waits.apply(decode_object(queue(quota(nominalQuota=5))))  # or it would not be tried again
    assert waits.cycle().waiting == {
        "d/w": "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec."
        'containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max'
    }


def test_a_gate_that_is_not_followed_is_refused() -> None:
    with pytest.raises(InputError, match="feature gate PartialAdmision is not followed; nearest: PartialAdm"):
        Settings(gates={"PartialAdmision": False})
    with pytest.raises(InputError, match="preemptionStrategies: Other is not one of"):
        Settings(fair_sharing=("Other",))
