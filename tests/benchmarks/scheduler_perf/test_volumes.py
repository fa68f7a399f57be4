"""Volumes of a workload: claims and volumes of its pods, what nodes take, pods that plugins about volumes
decide about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf.measured_run import MeasuredRun
from tests.benchmarks.scheduler_perf.make import POD, nodes, placements, pods, run_ops

from moorage.errors import InputError
from moorage.objects import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    DiskVolumeSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    ResourceRequirements,
    Volume,
    VolumeNodeResources,
)

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
    return [without_history(obj) for obj in run.scheduler.client.list(kind)[0]]


def without_history(obj: Any) -> Any:
    """An object without what the store and the defaults have made up."""
    meta = obj.metadata
    kept = ObjectMeta(
        name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations
    )
    return type(obj)(
        metadata=kept,
        **{
            field: getattr(obj, field)
            for field in obj.__struct_fields__
            if field not in ("metadata", "kind", "api_version")
        },
    )


def expected_claim(namespace: str, index: int) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "true"}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=f"pvc-{index}", namespace=namespace, annotations=annotations),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadOnlyMany",),
            volume_name=f"{namespace}-vol-{index}",
            resources=ResourceRequirements(requests={"storage": "1Gi"}),
        ),
        status=PersistentVolumeClaimStatus(phase="Bound"),
    )


def expected_volume(namespace: str, index: int, **source: Any) -> PersistentVolume:
    claim = ObjectReference(
        kind="PersistentVolumeClaim", namespace=namespace, name=f"pvc-{index}", api_version="v1"
    )
    return PersistentVolume(
        metadata=ObjectMeta(name=f"{namespace}-vol-{index}"),
        spec=PersistentVolumeSpec(
            capacity={"storage": "1Gi"}, access_modes=("ReadOnlyMany",), claim_ref=claim, **source
        ),
        status=PersistentVolumeStatus(phase="Bound"),
    )


def test_claims_and_volumes_are_bound_to_each_other(tmp_path: Path) -> None:
    ops = pods(2, **WITH_AWS, **CREATED), pods(1, namespace="other", **WITH_CSI, **CREATED)
    run = run_ops(tmp_path, *ops, files=FILES)
    assert held(run, PersistentVolumeClaim) == [
        expected_claim("namespace-0", 0),
        expected_claim("namespace-0", 1),
        expected_claim("other", 0),
    ]
    csi = CSIPersistentVolumeSource(driver="ebs.csi.aws.com", volume_handle="other-vol-0")
    assert held(run, PersistentVolume) == [
        expected_volume("namespace-0", 0, aws_elastic_block_store=DiskVolumeSource(volume_id="vol-0")),
        expected_volume("namespace-0", 1, aws_elastic_block_store=DiskVolumeSource(volume_id="vol-1")),
        expected_volume("other", 0, csi=csi),
    ]


@pytest.mark.parametrize("name", ["generateName: pod-", "name: 'pod-{{.Index}}'"])
def test_each_pod_uses_its_claim_and_no_other_volume(tmp_path: Path, name: str) -> None:
    files = FILES | {"own.yaml": DISK.replace("generateName: pod-", name)}
    run = run_ops(tmp_path, pods(3, podTemplatePath="own.yaml", **WITH_AWS, **CREATED), files=files)
    found = {pod.name: pod.spec.volumes for pod in run.scheduler.client.list(Pod)[0]}
    assert found == {f"pod-{index}": (volume_of_claim(f"pvc-{index}"),) for index in range(3)}


def volume_of_claim(name: str) -> Volume:
    return Volume(name="vol", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))


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
        ([nodes(1, nodeAllocatableStrategy={"csiNodeAllocatable": {"d": {"count": "3"}}})], "count"),
    ],
)
def test_volumes_that_are_wrong(tmp_path: Path, ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as refused:
        run_ops(tmp_path, *ops, files=FILES)
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
    assert held(run, CSINode) == [
        CSINode(
            metadata=ObjectMeta(name=name, annotations=migrated),
            spec=CSINodeSpec(
                drivers=(
                    CSINodeDriver(name="b.csi", node_id=name, allocatable=VolumeNodeResources(count=39)),
                    CSINodeDriver(name="a.csi", node_id=name, allocatable=VolumeNodeResources()),
                )
            ),
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
