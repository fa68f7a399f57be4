"""Volumes of a workload: claims and volumes of its pods, what nodes take, pods that plugins about volumes
decide about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf.measured_run import MeasuredRun
from tests.benchmarks.scheduler_perf.make import POD, nodes, placements, pods, run_ops
from tests.make import claim, make, manifest, volume

from moorage import edit
from moorage.errors import InputError
from moorage.kube import CSINode, PersistentVolume, PersistentVolumeClaim, Pod

CLAIM = """\
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
"""
AWS = """\
kind: PersistentVolume
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, awsElasticBlockStore: {volumeID: <volume-id>}}
"""
CSI = AWS.replace("awsElasticBlockStore: {volumeID: <volume-id>}", "csi: {driver: ebs.csi.aws.com}")
FILES = {"pvc.yaml": CLAIM, "aws.yaml": AWS, "csi.yaml": CSI}
WITH_AWS = {"persistentVolumeTemplatePath": "aws.yaml", "persistentVolumeClaimTemplatePath": "pvc.yaml"}
WITH_CSI = WITH_AWS | {"persistentVolumeTemplatePath": "csi.yaml"}
CREATED = {"skipWaitToCompletion": True}
DISK = POD + "  volumes: [{name: v, awsElasticBlockStore: {volumeID: vol-1}}]\n"


def held(run: MeasuredRun, kind: type[Any]) -> list[Any]:
    """The objects without what the store has given them."""
    given = {"metadata.uid": "", "metadata.resource_version": "", "metadata.creation_timestamp": None}
    return [edit(obj, given) for obj in run.scheduler.client.list(kind)[0]]


MODES = ["ReadOnlyMany"]
BOUND = {"pv.kubernetes.io/bind-completed": "true"}
PHASE = {"phase": "Bound"}


def test_claims_and_volumes_are_bound_to_each_other(tmp_path: Path) -> None:
    ops = pods(2, **WITH_AWS, **CREATED), pods(1, namespace="other", **WITH_CSI, **CREATED)
    run = run_ops(tmp_path, *ops, files=FILES)
    pairs = [("namespace-0", 0), ("namespace-0", 1), ("other", 0)]
    more: dict[str, Any] = {"accessModes": MODES, "metadata": {"annotations": BOUND}, "status": PHASE}
    assert held(run, PersistentVolumeClaim) == [
        claim(f"{space}/pvc-{at}", None, f"{space}-vol-{at}", **more) for space, at in pairs
    ]
    csi = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "other-vol-0"}}
    sources = [*({"awsElasticBlockStore": {"volumeID": f"vol-{at}"}} for at in range(2)), csi]
    whose = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    assert held(run, PersistentVolume) == [
        volume(
            f"{space}-vol-{at}",
            accessModes=MODES,
            claimRef=whose | {"namespace": space, "name": f"pvc-{at}"},
            status=PHASE,
            **source,
        )
        for (space, at), source in zip(pairs, sources, strict=True)
    ]


@pytest.mark.parametrize("name", ["generateName: pod-", "name: 'pod-{{.Index}}'"])
def test_each_pod_uses_its_claim_and_no_other_volume(tmp_path: Path, name: str) -> None:
    files = FILES | {"own.yaml": DISK.replace("generateName: pod-", name)}
    run = run_ops(tmp_path, pods(3, podTemplatePath="own.yaml", **WITH_AWS, **CREATED), files=files)
    found = {pod.name: manifest(pod)["spec"]["volumes"] for pod in run.scheduler.client.list(Pod)[0]}
    assert found == {
        f"pod-{at}": [{"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{at}"}}] for at in range(3)
    }


def test_a_volume_template_alone_changes_nothing(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(1), pods(1, persistentVolumeTemplatePath="aws.yaml"), files=FILES)
    assert held(run, PersistentVolume) == []
    assert len(placements(run)) == 1


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        (
            [pods(1, persistentVolumeClaimTemplatePath="pvc.yaml")],
            "persistentVolumeTemplatePath: required beside persistentVolumeClaimTemplatePath",
        ),
        (
            [pods(1, steadyState=True, duration="1s", **WITH_AWS)],
            "persistentVolumeClaimTemplatePath: cannot be combined with steadyState",
        ),
        (
            [pods(1, namespace="n", **WITH_AWS, **CREATED)] * 2,
            'persistentvolumeclaims "pvc-0" already exists',
        ),
        ([pods(1, **WITH_AWS | {"persistentVolumeTemplatePath": "pvc.yaml"})], "not a PersistentVolume"),
        (
            [pods(2, podTemplatePath="named.yaml")],
            "Pod namespace-0/x: metadata.name: one name for",
        ),
        ([nodes(1, nodeAllocatableStrategy={"csiNodeAllocatable": {"d": {"count": "3"}}})], "count"),
    ],
)
def test_volumes_that_are_wrong(tmp_path: Path, ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as refused:
        run_ops(tmp_path, *ops, files=FILES | {"named.yaml": POD.replace("generateName: pod-", "name: x")})
    assert message in str(refused.value)


def test_nodes_say_how_many_volumes_they_take(tmp_path: Path) -> None:
    strategy = {
        "nodeAllocatable": {"attachable-volumes-csi-a": "39"},
        "csiNodeAllocatable": {"b.csi": {"count": 39}, "a.csi": {}},
        "migratedPlugins": ["kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"],
    }
    run = run_ops(tmp_path, nodes(2, nodeAllocatableStrategy=strategy))
    names = sorted(run.scheduler.context.view_order())
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
    drivers = [{"name": "b.csi", "allocatable": {"count": 39}}, {"name": "a.csi", "allocatable": {}}]
    assert held(run, CSINode) == [
        make(
            "CSINode",
            name,
            {"drivers": [driver | {"nodeID": name} for driver in drivers]},
            metadata={"annotations": migrated},
        )
        for name in names
    ]
    assert run.scheduler.table.allocatable["attachable-volumes-csi-a"].tolist() == [39, 39]


def test_nodes_of_another_strategy_say_nothing(tmp_path: Path) -> None:
    run = run_ops(tmp_path, nodes(2), nodes(2, uniqueNodeLabelStrategy={"labelKey": "id"}))
    assert held(run, CSINode) == []
    run = run_ops(tmp_path, nodes(1, nodeAllocatableStrategy={"nodeAllocatable": {"cpu": "3"}}))
    assert [node.metadata.annotations for node in held(run, CSINode)] == [
        {"storage.alpha.kubernetes.io/migrated-plugins": ""}
    ]


def test_pods_with_disks_of_their_own_are_measured_one_by_one(tmp_path: Path) -> None:
    disks = DISK.replace("vol-1", "'vol-{{.Index}}'")
    run = run_ops(
        tmp_path,
        nodes(3),
        pods(2, podTemplatePath="disk.yaml"),
        pods(5, podTemplatePath="disks.yaml", collectMetrics=True),
        files={"disk.yaml": DISK, "disks.yaml": disks},
    )
    first, measured = run.operations.runs[0], run.operations.runs[1:]
    assert len(set(first.state.tolist())) == 2  # one disk cannot be mounted twice
    assert run.meter.pods == 5
    assert run.meter.placing_all_ns == run.meter.placing_ns == 5_000_000  # a look after each
    assert run.meter.chunks == [7e6 / 5]
    assert measured[1].state[0] not in first.state


def test_a_pod_with_a_disk_evicts(tmp_path: Path) -> None:
    important = DISK.replace("spec:", "spec:\n  priority: 10")
    run = run_ops(
        tmp_path,
        nodes(1),
        pods(1, podTemplatePath="disk.yaml"),
        pods(1, podTemplatePath="important.yaml", collectMetrics=True),
        files={"disk.yaml": DISK, "important.yaml": important},
    )
    counts = run.operations.counts()
    assert (counts["preemptors"], counts["victims"], counts["unschedulable"]) == (1, 1, 0)
    assert run.meter.pods == 1
