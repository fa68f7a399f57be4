"""The engine over the wire format decides as it does over a store of its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.doors.controllers import ControllerParameters, PersistentVolumeController
from tests.doors.live import ApiClient
from tests.store.api.test_api_client import answers, cuts
from tests.store.api.wire_server import WireServer

from moorage import Scheduler
from moorage.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, decode_object
from moorage.store import InformerFactory, ObjectStore

LIMIT = 30.0


def objects() -> Iterator[dict[str, Any]]:
    """Six nodes in two zones, and pods with requests, spread, affinity, priorities and too much to ask."""
    for at in range(6):
        labels = {"kubernetes.io/hostname": f"n{at}", "topology.kubernetes.io/zone": f"z{at % 2}"}
        size = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        status = {"capacity": size, "allocatable": size}
        yield {"kind": "Node", "metadata": {"name": f"n{at}", "labels": labels}, "status": status}
    for at in range(24):
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
        cpu = "100" if at == 23 else f"{1 + at % 3}00m"
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, Any] = {"containers": [container], "priority": at % 2}
        if at % 4 == 0:
            spec["topologySpreadConstraints"] = [spread]
        stamp = f"2026-01-01T00:00:{at:02}Z"
        meta = {"name": f"p{at}", "namespace": "default", "labels": {"app": "ab"[at % 2]}}
        yield {"kind": "Pod", "metadata": {**meta, "creationTimestamp": stamp}, "spec": spec}


def fill(store: ObjectStore, values: Any) -> None:
    for value in values:
        store.create(decode_object(value))


def nodes_of(store: ObjectStore) -> dict[str, str]:
    return {pod.name: pod.spec.node_name for pod in store.list(Pod)[0]}


def settled(client: ApiClient, store: ObjectStore, scheduler: Scheduler) -> None:
    """Wait until the scheduler has seen what the store has."""
    while True:
        seen = client.arrivals.count
        scheduler.sync()
        versions = {pod.key: pod.metadata.resource_version for pod in store.list(Pod)[0]}
        known = scheduler.informers.informer(Pod).indexer.values()
        if versions == {pod.key: pod.metadata.resource_version for pod in known}:
            return
        assert client.arrivals.wait(seen, LIMIT) != seen


def test_a_run_places_the_same_pods_on_the_same_nodes(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    local = ObjectStore(lambda: 1000.0)
    for one in (store, local):
        fill(one, objects())
    expected = Scheduler(local).run()
    result = Scheduler(client).run()
    assert result.placements == expected.placements
    assert nodes_of(store) == nodes_of(local)
    assert {key: one.message for key, one in result.unschedulable.items()} == {
        key: one.message for key, one in expected.unschedulable.items()
    }


def test_faults_in_mid_run_bind_no_pod_twice_and_lose_none(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    fill(store, objects())
    scheduler = Scheduler(client)
    later = {"Retry-After": "1"}

    def on_bindings(fault: Any) -> Any:
        return lambda handler: handler.path.endswith("/binding") and fault(handler)

    def bound_but_unanswered(handler: Any) -> bool:
        handler.server_of.store.bind(
            store.get(Pod, handler.parts[5], "default"), handler.body["target"]["name"]
        )
        handler.cut()
        return True

    server.faults += [
        on_bindings(cuts),
        on_bindings(answers(429, "TooManyRequests", "later", later)),
        on_bindings(answers(409, "Conflict", "the object has been modified")),
        on_bindings(bound_but_unanswered),
        on_bindings(answers(500, "InternalError", "broken")),
    ]
    scheduler.run()
    server.cut()
    for _ in range(3):
        settled(client, store, scheduler)
        scheduler.run()
    settled(client, store, scheduler)
    assert [name for name, node in nodes_of(store).items() if not node] == ["p23"]
    assert not any(map(scheduler.cache.is_assumed_pod, store.list(Pod)[0]))


def test_preemption_patches_and_deletes_through_the_server(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    size = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": size, "allocatable": size}}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    low = {"containers": [container], "priority": 0, "nodeName": "n"}
    fill(store, [node, {"kind": "Pod", "metadata": {"name": "low", "namespace": "default"}, "spec": low}])
    high = {"containers": [container], "priority": 10}
    fill(store, [{"kind": "Pod", "metadata": {"name": "high", "namespace": "default"}, "spec": high}])
    scheduler = Scheduler(client)
    scheduler.run()
    settled(client, store, scheduler)
    scheduler.run()
    assert nodes_of(store) == {"high": "n"}
    writes = [
        (method, path.rpartition("/pods/")[2]) for method, path, _ in server.requests if method != "GET"
    ]
    assert writes.index(("PATCH", "low/status")) < writes.index(("DELETE", "low"))
    assert ("PATCH", "high/status") in writes
    assert writes[-1] == ("POST", "high/binding")


def volume_controller(client: ApiClient) -> PersistentVolumeController:
    """The controller, without provisioners."""
    informer = InformerFactory(client).informer
    return PersistentVolumeController(
        ControllerParameters(
            kube_client=client,
            volume_informer=informer(PersistentVolume),
            claim_informer=informer(PersistentVolumeClaim),
            class_informer=informer(StorageClass),
            pod_informer=informer(Pod),
            node_informer=informer(Node),
            volume_plugins=[],
            sync_period=15.0,
            enable_dynamic_provisioning=False,
        ),
        clock=lambda: 0.0,
    )


def test_volumes_are_bound_by_the_controller_over_the_wire(client: ApiClient, store: ObjectStore) -> None:
    size = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s"}
    requests = {"resources": {"requests": {"storage": "1Gi"}}}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"}
    use = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    meta = {"name": "c", "namespace": "default"}
    fill(
        store,
        [
            {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": size, "allocatable": size}},
            {
                "kind": "StorageClass",
                "metadata": {"name": "s"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "kind": "PersistentVolume",
                "metadata": {"name": "v"},
                "spec": {**volume, "hostPath": {"path": "/x"}},
            },
            {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim | requests},
            {
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"containers": [{"name": "c"}], "volumes": [use]},
            },
        ],
    )
    controller = volume_controller(client)
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds
        seen = client.arrivals.count
        controller.settle()
        client.arrivals.wait(seen, 0.05)

    while store.get(PersistentVolume, "v").status.phase != "Available":
        wait(0.0)
    scheduler = Scheduler(client, clock=lambda: now[0], wait=wait)
    result = scheduler.run()
    assert nodes_of(store) == {"p": "n"}, [one.message for one in result.unschedulable.values()]
    bound = store.get(PersistentVolumeClaim, "c", "default")
    assert (bound.spec.volume_name, bound.status.phase) == ("v", "Bound")
    assert store.get(PersistentVolume, "v").status.phase == "Bound"


@pytest.mark.parametrize("streams", [True, False])
def test_device_claims_are_allocated_over_the_wire(
    client: ApiClient, store: ObjectStore, server: WireServer, streams: bool
) -> None:
    from moorage.objects import ResourceClaim

    server.streams_lists = streams
    size = {"cpu": "4", "memory": "1Gi", "pods": "10"}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    gpu = {"kind": "DeviceClass", "metadata": {"name": "gpu"}}
    fill(
        store,
        [
            {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": size, "allocatable": size}},
            {**gpu, "apiVersion": "resource.k8s.io/v1"},
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "s"},
                "spec": {"driver": "d", "nodeName": "n", "pool": pool, "devices": [{"name": "g0"}]},
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": "default"},
                "spec": {"devices": {"requests": [request]}},
            },
            {
                "kind": "Pod",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {
                    "containers": [{"name": "c", "resources": {"claims": [{"name": "g"}]}}],
                    "resourceClaims": [{"name": "g", "resourceClaimName": "c"}],
                },
            },
        ],
    )
    Scheduler(client).run()
    assert nodes_of(store) == {"p": "n"}
    status = store.get(ResourceClaim, "c", "default").status
    assert status.allocation is not None
    assert [one.name for one in status.reserved_for] == ["p"]
