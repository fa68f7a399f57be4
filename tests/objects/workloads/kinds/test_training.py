"""Pods of TrainJobs, which training runtimes have the templates of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.objects.workloads.kinds.test_expand_kinds import load, obj, requests

from moorage.objects import Cluster

VERSION = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def job(name: str, step: str = "", container: str = "node") -> str:
    labels = f"metadata: {{labels: {{{STEP}: {step}}}}}, " if step else ""
    pod = f"{{containers: [{{name: {container}, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}"
    return f"{{name: {name}, template: {{{labels}spec: {{template: {{spec: {pod}}}}}}}}}"


def runtime(policy: str, *jobs: str, kind: str = "ClusterTrainingRuntime", name: str = "torch") -> str:
    spec = f"{{mlPolicy: {policy}, template: {{spec: {{replicatedJobs: [{', '.join(jobs)}]}}}}}}"
    return obj(VERSION, kind, spec, name=name)


def train(more: str = "", kind: str = "", name: str = "torch") -> str:
    reference = f"{{name: {name}{f', kind: {kind}' if kind else ''}}}"
    return obj(VERSION, "TrainJob", f"{{runtimeRef: {reference}{more}}}")


def pods_of(cluster: Cluster) -> Counter[str]:
    owners = (pod.metadata.controller() for pod in cluster.pods)
    return Counter(owner.name for owner in owners if owner is not None)


TORCH = runtime("{numNodes: 2, torch: {}}", job("node", "trainer"))
STEPS = runtime("{torch: {}}", job("dataset", "dataset-initializer", "dataset"), job("node", "trainer"))
MPI = runtime("{numNodes: 1, mpi: {runLauncherAsNode: true}}", job("node"), job("launcher", "trainer"))


@pytest.mark.parametrize(
    ("runs", "more", "pods"),
    [
        (TORCH, "", {"x-node-0": 2}),
        (TORCH, ", trainer: {numNodes: 3}", {"x-node-0": 3}),
        (STEPS, ", trainer: {numNodes: 3}", {"x-dataset-0": 1, "x-node-0": 3}),
        (MPI, ", trainer: {numNodes: 4}", {"x-node-0": 3, "x-launcher-0": 1}),
        (MPI, "", {"x-node-0": 1, "x-launcher-0": 1}),
    ],
)
def test_a_train_job_has_the_nodes_that_it_or_its_runtime_says(
    runs: str, more: str, pods: dict[str, int], tmp_path: Path
) -> None:
    cluster = load(tmp_path, runs, train(more))
    assert (pods_of(cluster), cluster.left_out) == (pods, [])


def test_resources_of_a_node_change_the_container_of_the_node_alone(tmp_path: Path) -> None:
    given = ", trainer: {numNodes: 1, resourcesPerNode: {requests: {cpu: 4}}}"
    cluster = load(tmp_path, STEPS, train(given))
    found = {pod.spec.containers[0].name: requests(pod) for pod in cluster.pods}
    assert {name: asked["cpu"] for name, asked in found.items()} == {"dataset": 1000, "node": 4000}
    assert {asked["memory"] for asked in found.values()} == {1 << 30}


def test_a_runtime_of_another_namespace_is_none(tmp_path: Path) -> None:
    of_default = runtime("{torch: {}}", job("node", "trainer"), kind="TrainingRuntime")
    assert pods_of(load(tmp_path, of_default, train(kind="TrainingRuntime"))) == {"x-node-0": 1}
    elsewhere = of_default.replace("{name: torch}", "{name: torch, namespace: other}")
    cluster = load(tmp_path, elsewhere, train(kind="TrainingRuntime"))
    assert [one.why for one in cluster.left_out] == ["whose TrainingRuntime torch is not in the input"]


def test_a_train_job_that_patches_its_runtime_is_left_out(tmp_path: Path) -> None:
    cluster = load(tmp_path, TORCH, train(", runtimePatches: [{manager: m}]"))
    assert [one.why for one in cluster.left_out] == ["whose runtimePatches change its runtime"]
