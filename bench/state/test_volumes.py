"""Volumes: what a pod's claim gets on each of 5,000 nodes out of 1,000 local volumes."""

from __future__ import annotations

from typing import Any

import pytest
from bench.cluster import NODES
from msgspec.structs import replace

from moorage import synthetic
from moorage.engine.volume import BindingInfo, PodVolumeClaims, PodVolumes, VolumeBinder, VolumeSources
from moorage.engine.volume.claims import claim_class, reaches_node, requested_storage, storage_capacity
from moorage.kube import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
    StorageClass,
    Volume,
    VolumeNodeAffinity,
)
from moorage.store import InformerFactory, ObjectStore

HOST = "kubernetes.io/hostname"
VOLUMES = 1_000
TWIN_NODES = 50
nodes = [
    replace(node, metadata=replace(node.metadata, labels=node.metadata.labels | {HOST: node.name}))
    for node in synthetic(nodes=NODES, pods=0, seed=1).nodes
]


def local_volume(number: int) -> PersistentVolume:
    here = NodeSelectorRequirement(key=HOST, operator="In", values=(nodes[number * 5].name,))
    terms = (NodeSelectorTerm(match_expressions=(here,)),)
    return PersistentVolume(
        metadata=ObjectMeta(name=f"pv-{number:04}"),
        spec=PersistentVolumeSpec(
            capacity={"storage": f"{1 + number % 7}Gi"},
            storage_class_name="local",
            node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)),
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )


POD = Pod(
    metadata=ObjectMeta(name="pod", namespace="default", uid="pod"),
    spec=PodSpec(
        volumes=(
            Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data")),
        )
    ),
)


def new_binder() -> VolumeBinder:
    store = ObjectStore()
    informers = InformerFactory(store)
    one = VolumeBinder(VolumeSources.over(store, informers), clock=lambda: 0.0)
    store.create(
        StorageClass(
            metadata=ObjectMeta(name="local"),
            provisioner="kubernetes.io/no-provisioner",
            volume_binding_mode="WaitForFirstConsumer",
        )
    )
    requests = ResourceRequirements(requests={"storage": "1Gi"})
    store.create(
        PersistentVolumeClaim(
            metadata=ObjectMeta(name="data", namespace="default"),
            spec=PersistentVolumeClaimSpec(storage_class_name="local", resources=requests),
        )
    )
    store.create_many([*nodes, *map(local_volume, range(VOLUMES)), POD])
    informers.run_once()
    return one


@pytest.fixture(scope="module")
def binder() -> VolumeBinder:
    """Each benchmark leaves it as it was."""
    return new_binder()


def find_everywhere(binder: VolumeBinder) -> list[PodVolumes]:
    claims = binder.get_pod_volume_claims(POD)
    found = [binder.find_pod_volumes(POD, claims, node) for node in nodes]
    return [volumes for volumes, reasons in found if not reasons]


def test_find(benchmark: Any, report: Any, binder: VolumeBinder) -> None:
    report("volumes, find for a pod with one claim, 1,000 local volumes, per node", NODES)
    assert len(benchmark(find_everywhere, binder)) == VOLUMES


def test_find_twin(benchmark: Any, report: Any, binder: VolumeBinder) -> None:
    """Upstream's way: every volume of the class is looked at for every node."""
    report("volumes, find for a pod with one claim, 1,000 local volumes, per node", TWIN_NODES, True)

    def run() -> int:
        claims: PodVolumeClaims = binder.get_pod_volume_claims(POD)
        (claim,) = claims.unbound_delayed
        volumes, requested = claims.volumes[claim_class(claim)], requested_storage(claim)
        found = 0
        for node in nodes[:TWIN_NODES]:
            labels = node.metadata.labels
            sizes = [
                storage_capacity(pv)
                for pv in volumes
                if pv.spec.claim_ref is None and pv.status.phase == "Available" and reaches_node(pv, labels)
            ]
            found += min(sizes, default=0) >= requested
        return found

    assert benchmark.pedantic(run, rounds=3) == TWIN_NODES // 5


def test_claims(benchmark: Any, report: Any, binder: VolumeBinder) -> None:
    report("volumes, what a pod's claim may be bound to, 1,000 local volumes")
    benchmark(lambda: binder.get_pod_volume_claims(POD).matchers)


def test_assume_and_revert(benchmark: Any, report: Any, binder: VolumeBinder) -> None:
    report("volumes, assume and revert")
    found = find_everywhere(binder)[0]
    assert found.static_bindings is not None

    def run(bindings: list[BindingInfo] = found.static_bindings) -> None:
        volumes = PodVolumes(bindings)
        assert not binder.assume_pod_volumes(POD, nodes[0].name, volumes)
        binder.revert_assumed_pod_volumes(volumes)

    benchmark(run)


def test_bind(benchmark: Any, report: Any) -> None:
    """Written, and looked at once."""
    report("volumes, write a binding and look at it")

    def setup() -> tuple[Any, dict[str, Any]]:
        binder = new_binder()
        volumes = find_everywhere(binder)[0]
        binder.assume_pod_volumes(POD, nodes[0].name, volumes)
        return (binder, volumes), {}

    def run(binder: VolumeBinder, volumes: PodVolumes) -> None:
        running = binder.begin(POD, volumes, nodes[0].name)
        assert not binder.check(running)

    benchmark.pedantic(run, setup=setup, rounds=5)
