"""What operators make of the kinds of other projects; how many pods say the cases `kube/known_kinds` and
`kube/counted_kinds`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.engine import pod_requests
from tests.doors.kube import RULES
from tests.house.source import ROOT
from tests.make import Json, template

import moorage as mo
from moorage.kube import Pod

TEMPLATE = template("x", {"cpu": 2})
VOLCANO = {"tasks": [{"name": "t", "replicas": 2, "template": TEMPLATE}]}


def obj(version: str, kind: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def pods_of(*objects: Json) -> list[Pod]:
    return mo.expanded(mo.load(list(objects))).pods


def requests(pod: Pod) -> dict[str, int]:
    """What a pod requests, of CPU in thousandths."""
    found = pod_requests(pod)
    return {name: one.milli_value() if name == "cpu" else one.value() for name, one in found.items()}


def test_an_object_may_be_listed_in_two_forms(tmp_path: Path) -> None:
    """Support bundles have each list as YAML and as JSON."""
    job = obj("batch.volcano.sh/v1alpha1", "Job", VOLCANO)
    job["metadata"] |= {"uid": "u", "namespace": "a"}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(job))
    (tmp_path / "b.json").write_text(json.dumps(job, indent=2))
    assert len(mo.load(tmp_path).pods) == 2


@pytest.mark.parametrize(("given", "expected"), [({}, "OnFailure"), ({"restartPolicy": "Never"}, "Never")])
def test_jobs_of_a_job_set_restart_their_containers_unless_they_say_otherwise(
    given: Json, expected: str
) -> None:
    inner = {"spec": TEMPLATE["spec"] | given}
    jobs = [{"name": "w", "template": {"spec": {"template": inner}}}]
    (made,) = pods_of(obj("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}))
    assert made.spec.restart_policy == expected


@pytest.mark.parametrize(
    ("options", "cpu"),
    [({}, "500m"), ({"autoscalerOptions": {"resources": {"requests": {"cpu": 3}}}}, 3)],
)
def test_ray_adds_its_autoscaler(options: Json, cpu: object) -> None:
    spec = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": TEMPLATE}} | options
    (pod,) = pods_of(obj("ray.io/v1", "RayCluster", spec))
    assert [container.resources.requests["cpu"] for container in pod.spec.containers] == [2, cpu]


def test_a_worker_of_ray_waits_for_the_head_in_a_container() -> None:
    group = {"groupName": "g", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    (pod,) = pods_of(obj("ray.io/v1", "RayCluster", {"workerGroupSpecs": [group]}))
    assert requests(pod) == {"cpu": 200, "memory": 256 << 20}


def test_volcano_schedules_the_pods_of_its_jobs() -> None:
    pods = pods_of(obj("batch.volcano.sh/v1alpha1", "Job", VOLCANO))
    assert {pod.spec.scheduler_name for pod in pods} == {"volcano"}
    (owner,) = pods[0].metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name) == ("batch.volcano.sh/v1alpha1", "Job", "x")


def test_resources_of_a_node_change_the_container_of_the_node_alone() -> None:
    def job(name: str, step: str, container: str) -> Json:
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
        pod = {"containers": [{"name": container, "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}
        inner = {"spec": {"template": {"spec": pod}}}
        return {"name": name, "template": {"metadata": {"labels": labels}} | inner}

    version = "trainer.kubeflow.org/v1alpha1"
    jobs = [job("dataset", "dataset-initializer", "dataset"), job("node", "trainer", "node")]
    runs = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}}
    trainer: Json = {"numNodes": 1, "resourcesPerNode": {"requests": {"cpu": 4}}}
    train = obj(version, "TrainJob", {"runtimeRef": {"name": "x"}, "trainer": trainer})
    found = {
        p.spec.containers[0].name: requests(p)
        for p in pods_of(obj(version, "ClusterTrainingRuntime", runs), train)
    }
    assert {name: asked["cpu"] for name, asked in found.items()} == {"dataset": 1000, "node": 4000}
    assert {asked["memory"] for asked in found.values()} == {1 << 30}


def test_the_page_of_kinds_names_the_release_that_each_kind_follows() -> None:
    page = (ROOT / "docs/kinds.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    releases: dict[str, Any] = {name: row[2:] for row in rows for name in row[0].split(", ")}
    for full_kind, rule in RULES.items():
        if rule.parts or rule.groups or rule.objects:
            release = releases.get(full_kind, releases.get(full_kind.partition(".")[0]))
            assert release, full_kind
