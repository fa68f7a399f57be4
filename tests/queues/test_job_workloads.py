"""What becomes workloads of Kueue, and of which sets of pods."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.kube import Object, decode_object
from tests.doors.kube import read_custom
from tests.doors.queues import JobWorkloads, workload_name
from tests.make import written

Json = dict[str, Any]
PODS = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def job(kind: str, version: str, spec: Json, annotations: Json | None = None, **labels: str) -> Json:
    marks = {"kueue.x-k8s.io/queue-name": "lq"} | {
        f"kueue.x-k8s.io/{k.replace('_', '-')}": v for k, v in labels.items()
    }
    metadata = {"name": "a", "namespace": "d", "uid": "u1", "labels": marks, "annotations": annotations or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def read(value: Json) -> Object:
    custom = read_custom(value, value["kind"], value["apiVersion"])
    return custom if is_custom(value) and custom is not None else decode_object(value)


def is_custom(value: Json) -> bool:
    return value["kind"] in ("JobSet", "PyTorchJob", "RayJob")


def sets(*objects: Json) -> list[tuple[str, int]] | None:
    made = JobWorkloads([]).workload([read(each) for each in objects])
    return made and [(each.name, each.count) for each in made.spec.pod_sets]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "expected"),
    [
        ("Job", "batch/v1", {"parallelism": 4, "completions": 3, "template": PODS}, [("main", 3)]),
        ("StatefulSet", "apps/v1", {"replicas": 3, "template": PODS}, [("main", 3)]),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {
                "replicatedJobs": [
                    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "template": PODS}}}
                ]
            },
            [("w", 8)],
        ),
        (
            "PyTorchJob",
            "kubeflow.org/v1",
            {
                "pytorchReplicaSpecs": {
                    "Worker": {"replicas": 3, "template": PODS},
                    "Master": {"template": PODS},
                }
            },
            [("master", 1), ("worker", 3)],
        ),
        (
            "RayJob",
            "ray.io/v1",
            {
                "rayClusterSpec": {
                    "headGroupSpec": {"template": PODS},
                    "workerGroupSpecs": [
                        {"groupName": "g", "replicas": 2, "numOfHosts": 3, "template": PODS}
                    ],
                }
            },
            [("head", 1), ("g", 6), ("submitter", 1)],
        ),
        (
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 4, "leaderTemplate": PODS, "workerTemplate": PODS},
            },
            [("leader", 1), ("worker", 3)],
        ),
    ],
)
def test_each_kind_has_the_sets_of_its_integration(
    kind: str, version: str, spec: Json, expected: Any
) -> None:
    assert sets(job(kind, version, spec)) == expected


def test_groups_of_pods_wait_until_they_are_complete() -> None:
    pods = [
        job("Pod", "v1", PODS["spec"], {"kueue.x-k8s.io/pod-group-total-count": "2"}, pod_group_name="g")
        for _ in "ab"
    ]
    pods[1]["metadata"]["name"] = "b"
    assert sets(pods[0]) is None
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    pods[1]["spec"] = pods[1]["spec"] | gates
    assert [count for _, count in sets(*pods) or ()] == [2]


def test_the_fewest_pods_the_topology_and_the_priority_are_those_that_the_job_names() -> None:
    marks = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, **PODS}
    wanted = decode_object(
        job("Job", "batch/v1", {"parallelism": 4, "template": template}, marks, priority_class="high")
    )
    high = written("kueue.x-k8s.io/v1beta2/WorkloadPriorityClass", "high", value=7)
    workload = JobWorkloads([decode_object(high)]).workload([wanted])
    assert workload is not None
    (pods,) = workload.spec.pod_sets
    assert (pods.min_count, workload.spec.priority, workload.spec.queue_name) == (2, 7, "lq")
    assert pods.topology_request is not None
    assert pods.topology_request.required == "rack"
    assert workload.name == workload_name(wanted)


def test_what_names_no_queue_gets_no_workload_unless_there_is_one_by_default() -> None:
    free = job("Job", "batch/v1", {"template": PODS})
    del free["metadata"]["labels"]
    assert sets(free) is None
    local = written(
        "kueue.x-k8s.io/v1beta2/LocalQueue", {"name": "default", "namespace": "d"}, {"clusterQueue": "q"}
    )
    workload = JobWorkloads([decode_object(local)]).workload([decode_object(free)])
    assert workload is not None
    assert workload.spec.queue_name == "default"


def test_parts_of_what_becomes_a_workload_become_none_and_jobs_of_a_cronjob_do() -> None:
    def owned_by(kind: str, version: str) -> Json:
        part = job("Job", "batch/v1", {"template": PODS})
        owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "u2", "controller": True}
        part["metadata"]["ownerReferences"] = [owner]
        return part

    assert sets(owned_by("JobSet", "jobset.x-k8s.io/v1alpha2")) is None
    assert sets(owned_by("CronJob", "batch/v1")) == [("main", 1)]
