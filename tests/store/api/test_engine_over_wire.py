"""The engine over the wire format decides as it does over a store of its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.controllers.persistent_volume.controller_kit import parameters, settle
from tests.devices.make import claim as device_claim
from tests.devices.make import device, device_class, request, resource_slice
from tests.doors.controllers import new_controller
from tests.make import claim, node, pod, storage_class, volume
from tests.store.api.test_api_client import answers, cuts
from tests.store.api.wire_server import LIMIT, WireServer

from moorage import Scheduler
from moorage.kube import (
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
)
from moorage.live.client import ApiClient
from moorage.store import InformerFactory, ObjectStore


def machine(name: str, **amounts: str) -> Node:
    return node(name, labels={"kubernetes.io/hostname": name}, **amounts)


def objects() -> Iterator[Object]:
    """Six nodes in two zones, and pods with requests, spread, affinity, priorities and too much to ask."""
    for at in range(6):
        yield node(f"n{at}", f"z{at % 2}", {"kubernetes.io/hostname": f"n{at}"})
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    for at in range(24):
        own: dict[str, Any] = {"topologySpreadConstraints": [spread]} if at % 4 == 0 else {}
        own |= {"metadata": {"creationTimestamp": f"2026-01-01T00:00:{at:02}Z"}, "priority": at % 2}
        cpu = "100" if at == 23 else f"{1 + at % 3}00m"
        yield pod(f"p{at}", requests={"cpu": cpu}, labels={"app": "ab"[at % 2]}, **own)


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
        one.create_many(list(objects()))
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
    store.create_many(list(objects()))
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
    full = {"cpu": "1"}
    store.create_many(
        [
            machine("n", cpu="1"),
            pod("low", "n", full, priority=0),
            pod("high", requests=full, priority=10),
        ]
    )
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


def test_volumes_are_bound_by_the_controller_over_the_wire(client: ApiClient, store: ObjectStore) -> None:
    uses: Any = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    there = [node("n"), storage_class("s"), volume("v", "s", hostPath={"path": "/x"}), claim("c", "s")]
    store.create_many([*there, pod("p", **uses)])
    informers, now = InformerFactory(client), [0.0]
    controller = new_controller(parameters(client, informers), clock=lambda: 0.0)

    def wait(seconds: float) -> None:
        now[0] += seconds
        seen = client.arrivals.count
        settle(informers, controller)
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
    server.streams_lists = streams
    wants: Any = {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]}
    store.create_many(
        [
            *(node("n"), device_class(), resource_slice("n", [device("g0")])),
            *(device_claim("c", [request()]), pod("p", **wants)),
        ]
    )
    Scheduler(client).run()
    assert nodes_of(store) == {"p": "n"}
    status = store.get(ResourceClaim, "c", "default").status
    assert status.allocation is not None
    assert [one.name for one in status.reserved_for] == ["p"]
