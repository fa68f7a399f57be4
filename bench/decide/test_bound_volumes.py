"""A run over pods whose claims are bound, on 5,000 nodes with attach limits."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from bench.cluster import NODES
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage._core.decide.pod_batch import PodBatch
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.engine.volume.claims import BIND_COMPLETED, YES
from moorage.kube import (
    Cluster,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Volume,
    VolumeNodeResources,
)

DRIVER, ZONE = "ebs.csi.aws.com", "topology.kubernetes.io/zone"
MODES, SIZE = ("ReadWriteOnce",), {"storage": "1Gi"}
PODS = 2_000


def world() -> Cluster:
    """Each pod has a claim of its own, whose volume is in the first or second of three zones."""
    made = synthetic(nodes=NODES, pods=PODS, seed=1)
    zones = sorted({node.metadata.labels[ZONE] for node in made.nodes})
    limit = CSINodeDriver(name=DRIVER, allocatable=VolumeNodeResources(count=39))
    others: list[Any] = [
        CSINode(metadata=ObjectMeta(name=node.name), spec=CSINodeSpec(drivers=(limit,)))
        for node in made.nodes
    ]
    pods = []
    for at, pod in enumerate(made.pods):
        name, namespace = f"c{at}", pod.metadata.namespace
        others += bound(name, namespace, zones[at % 2])
        volume = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))
        pods.append(replace(pod, spec=replace(pod.spec, volumes=(volume,))))
    return Cluster(nodes=made.nodes, pods=pods, others=others)


def bound(name: str, namespace: str, zone: str) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """A claim and its volume as the volume controller leaves them."""
    meta = ObjectMeta(name=name, namespace=namespace, uid=name, annotations={BIND_COMPLETED: YES})
    status = PersistentVolumeClaimStatus(phase="Bound", access_modes=MODES, capacity=SIZE)
    spec = PersistentVolumeClaimSpec(access_modes=MODES, volume_name=name)
    claim = PersistentVolumeClaim(metadata=meta, spec=spec, status=status)
    reference = ObjectReference(kind="PersistentVolumeClaim", namespace=namespace, name=name, uid=name)
    source = CSIPersistentVolumeSource(driver=DRIVER, volume_handle=name)
    spec_of_volume = PersistentVolumeSpec(access_modes=MODES, capacity=SIZE, claim_ref=reference, csi=source)
    volume = PersistentVolume(
        metadata=ObjectMeta(name=name, labels={ZONE: zone}),
        spec=spec_of_volume,
        status=PersistentVolumeStatus(phase="Bound"),
    )
    return claim, volume


@pytest.mark.parametrize("by", ["demand", "plugins"])
def test_run(benchmark: Any, report: Any, by: str) -> None:
    report("run over pods with bound claims and attach limits, per pod", PODS, by == "plugins")
    batch_of = SchedulerState.batch_of

    def routed(context: SchedulerState, pods: Any, by_demand: bool = False, first: int = 0) -> PodBatch:
        return batch_of(context, pods, by_demand and by == "demand", first)

    def run(scheduler: Scheduler) -> None:
        with patch.object(SchedulerState, "batch_of", routed):
            assert len(scheduler.run().placements) == PODS

    benchmark.pedantic(run, setup=lambda: ((Scheduler(world()),), {}), rounds=3)
