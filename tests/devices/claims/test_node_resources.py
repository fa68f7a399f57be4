"""What devices take of a node's own resources (gate DRANodeAllocatableResources)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices.make import claim, device, device_class, request, resource_slice
from tests.make import node, pod

from moorage import Cluster, Quantity, Scheduler
from moorage.kube import NodeAllocatableResourceClaimStatus, Pod, ResourceClaim

ON = {"DRANodeAllocatableResources": True}
CORES = "example.com/cores"


def mapped(**amounts: str) -> dict[str, Any]:
    """The field of a device that takes fixed amounts of resources."""
    names = {key.replace("_", "-"): {"allocationMultiplier": amount} for key, amount in amounts.items()}
    return {"nodeAllocatableResourceMappings": names}


def asking(name: str, *claims: str, refers: bool = True, **more: Any) -> Pod:
    """A pod with claims, which its container uses."""
    used = {"requests": more.pop("requests", {}), "claims": [{"name": each} for each in claims if refers]}
    names = [{"name": each, "resourceClaimName": each} for each in claims]
    return pod(name, containers=[{"name": "main", "resources": used}], resourceClaims=names, **more)


def world(pods: list[Pod], *devices: dict[str, Any], claims: int = 3, **more: Any) -> Scheduler:
    """One node of 4 cores and 8 GiB, with devices."""
    slices = [resource_slice("n", devices or [device(f"d{at}", **mapped(cpu="2")) for at in range(3)])]
    others = [device_class(), *slices, *[claim(f"c{at}", [request()]) for at in range(claims)]]
    wide = node("n", cpu=4, memory="8Gi", pods=10)
    return Scheduler(Cluster(nodes=[wide], pods=pods, others=others), **{"feature_gates": ON} | more)


def statuses(one: Scheduler, name: str) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    stored: Pod = one.client.get(Pod, name, "default")
    return stored.status.node_allocatable_resource_claim_statuses


def reasons(one: Scheduler) -> list[dict[str, int]]:
    return [dict(failed.reasons) for failed in one.run().unschedulable.values()]


def test_devices_take_cpu_of_the_node() -> None:
    """Two devices of 2 cores each fill a node of 4, also for pods without claims."""
    pods = [asking(f"p{at}", f"c{at}", requests={"cpu": "0"}) for at in range(3)]
    one = world(pods)
    result = one.run()
    assert len(result.placements) == 2
    (failed,) = result.unschedulable.values()
    assert failed.reasons == {"Insufficient cpu": 1}
    key = next(iter(result.placements)).partition("/")[2]
    assert statuses(one, key) == (NodeAllocatableResourceClaimStatus(f"c{key[1]}", ("main",), {"cpu": "2"}),)
    one.client.create(pod("plain", requests={"cpu": 1}))
    assert not one.run().placements
    one.client.delete(Pod, key, "default")
    assert list(one.run().placements) == ["default/plain"]


def test_without_the_gate_they_take_nothing() -> None:
    pods = [asking(f"p{at}", f"c{at}", requests={"cpu": "0"}) for at in range(3)]
    one = world(pods, feature_gates={})
    assert len(one.run().placements) == 3
    assert statuses(one, "p0") == ()


def test_requests_of_the_pod_count_with_them() -> None:
    assert world([asking("p0", "c0", requests={"cpu": "2"})]).run().placements
    assert reasons(world([asking("p0", "c0", requests={"cpu": "3"})])) == [{"Insufficient cpu": 1}]


def test_several_resources_and_devices() -> None:
    devices = [device(f"d{at}", **mapped(cpu="1500m", memory="1Gi", hugepages_2Mi="2Mi")) for at in range(2)]
    wanted = claim("c", [request("r", 2)])
    one = world([asking("p", "c", requests={"cpu": "0"})], *devices, claims=0)
    one.client.create(wanted)
    assert reasons(one) == [{"Insufficient hugepages-2Mi": 1}]
    with_pages = node("big", cpu=4, memory="8Gi", pods=10, **{"hugepages-2Mi": "4Mi"})
    slices = resource_slice("big", devices)
    one = Scheduler(
        Cluster(
            nodes=[with_pages],
            pods=[asking("p", "c", requests={"cpu": "0"})],
            others=[device_class(), slices, wanted],
        ),
        feature_gates=ON,
    )
    assert one.run().placements
    (status,) = statuses(one, "p")
    assert {name: Quantity(raw) for name, raw in status.resources.items()} == {
        "cpu": Quantity("3"),
        "memory": Quantity("2Gi"),
        "hugepages-2Mi": Quantity("4Mi"),
    }


def shared(amount: str | None, **mapping: str) -> tuple[dict[str, Any], ResourceClaim]:
    """A device for several allocations, and a claim for a part of its cores."""
    one = device(
        "d0",
        capacity={CORES: {"value": "16"}},
        allowMultipleAllocations=True,
        nodeAllocatableResourceMappings={"cpu": {"capacityKey": CORES, **mapping}},
    )
    more = {} if amount is None else {"capacity": {"requests": {CORES: amount}}}
    return one, claim("c", [request("r", 1, **more)])


@pytest.mark.parametrize(
    ("amount", "multiplier", "cpu"), [("1", "2", "2"), ("3", None, "3"), ("1", "0.5", "500m")]
)
def test_what_is_consumed_is_multiplied(amount: str, multiplier: str | None, cpu: str) -> None:
    mapping = {} if multiplier is None else {"allocationMultiplier": multiplier}
    published, wanted = shared(amount, **mapping)
    one = world([asking("p", "c", requests={"cpu": "0"})], published, claims=0)
    one.client.create(wanted)
    assert one.run().placements
    (status,) = statuses(one, "p")
    assert status.resources == {"cpu": cpu}


def test_a_capacity_that_nothing_consumes_is_an_error() -> None:
    published, wanted = shared(None)
    published["allowMultipleAllocations"] = False
    one = world([asking("p", "c", requests={"cpu": "0"})], published, claims=0)
    one.client.create(wanted)
    (failed,) = one.run().unschedulable.values()
    text = f"ConsumedCapacity is nil, but Capacity key '{CORES}' is set in NodeAllocatableResourceMappings"
    assert f"claim default/c, device d0: {text} for resource cpu" in failed.error


def test_a_container_must_use_the_claim() -> None:
    text = "claim c0: node-allocatable resource claim not referenced by any container within the pod"
    assert reasons(world([asking("p0", "c0", refers=False)])) == [{text: 1}]


def test_requests_of_the_pod_as_a_whole_must_cover_them() -> None:
    small, enough = [
        asking("p0", "c0", requests={"cpu": "0"}, resources={"requests": {"cpu": cpu}}) for cpu in "12"
    ]
    text = "pod level request for cpu is insufficient to cover the aggregated container and"
    assert reasons(world([small])) == [{f"{text} node-allocatable DRA requests": 1}]
    assert world([enough]).run().placements


def test_a_claim_is_not_shared_on_a_node() -> None:
    one = world([asking("p0", "c0"), asking("p1", "c0")])
    result = one.run()
    assert list(result.placements) == ["default/p0"]
    (failed,) = result.unschedulable.values()
    assert failed.reasons == {"node allocatable resource claim c0 is already used by another pod": 1}


def test_pods_that_run_count() -> None:
    """A dump whose pods have the status: a fork and a new scheduler see the same."""
    one = world([asking("p0", "c0", requests={"cpu": "0"}), asking("p1", "c1", requests={"cpu": "0"})])
    assert len(one.run().placements) == 2
    again = Cluster(
        nodes=[node("n", cpu=4, memory="8Gi", pods=10)],
        pods=[*one.client.list(Pod)[0], pod("plain", requests={"cpu": 1})],
        others=[device_class(), *one.client.list(ResourceClaim)[0]],
    )
    assert not Scheduler(again, feature_gates=ON).run().placements
    assert Scheduler(again).run().placements


def test_a_victim_frees_what_its_devices_took() -> None:
    one = world([asking("low", "c0", requests={"cpu": "0"}, priority=0), pod("other", requests={"cpu": "1"})])
    assert len(one.run().placements) == 2
    one.client.create(asking("high", "c1", requests={"cpu": "1"}, priority=10))
    placements = one.run().placements | one.run().placements
    assert list(placements) == ["default/high"]
    assert {each.name for each in one.client.list(Pod)[0]} == {"other", "high"}


def test_a_transaction_takes_it_back() -> None:
    one = world([asking("p0", "c0", requests={"cpu": "0"})])
    with one.transaction():
        assert one.run().placements
        assert statuses(one, "p0")
    assert statuses(one, "p0") == ()
    one.client.create(pod("plain", requests={"cpu": 4}, priority=1))
    assert list(one.run().placements) == ["default/plain"]


def test_questions_count_it() -> None:
    one = world([asking("p0", "c0", requests={"cpu": "3"})])
    assert "Insufficient cpu" in str(one.ask.explain(one.client.get(Pod, "p0", "default")))
    assert one.ask.capacity(asking("new", "c1", requests={"cpu": "1"})).count == 1
    assert statuses(one, "p0") == ()


@pytest.mark.parametrize(
    ("left", "right", "product"),
    [("2", "3", "6"), ("4Gi", "2", "8Gi"), ("500m", "500m", "250m"), ("1n", "100m", "1n"), ("0", "5", "0")],
)
def test_products_of_quantities_are_exact(left: str, right: str, product: str) -> None:
    found = Quantity(left) * Quantity(right)
    assert (str(found), found) == (product, Quantity(product))
