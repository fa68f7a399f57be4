"""DynamicResources at work: devices are allocated, written and held; a transaction takes all back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.make import node, pod
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.doors.engine import DynamicResources, claim_hints, may_be_of
from tests.doors.kube import decode

import moorage as mo
from moorage import Scheduler
from moorage.objects import AllocatedDeviceStatus, Object, Pod, PodResourceClaim, ResourceClaim

MODEL = f'device.attributes["{DRIVER}"].model'


def asking(name: str, *claims: str, **more: Any) -> Pod:
    one = pod(name, **more)
    names = tuple([PodResourceClaim(name=each, resource_claim_name=each) for each in claims])
    return replace(one, spec=replace(one.spec, resource_claims=names))


def cluster(pods: list[Pod], *others: Object, extended: str | None = None) -> mo.Cluster:
    """Two nodes, b with one device of model x, c with one of model y."""
    slices = [
        resource_slice("b", [device("d0", {"model": "x"})]),
        resource_slice("c", [device("d0", {"model": "y"})]),
    ]
    nodes = [node("a"), node("b"), node("c")]
    gpus = device_class("gpu", extendedResourceName=extended)
    return mo.Cluster(nodes=nodes, pods=pods, others=[gpus, *slices, *others])


def held(one: Scheduler, name: str) -> ResourceClaim:
    return one.client.get(ResourceClaim, name, "default")


def devices_of(one: Scheduler, name: str) -> list[tuple[str, str]]:
    allocation = held(one, name).status.allocation
    return [] if allocation is None else [(each.pool, each.device) for each in allocation.devices.results]


def test_a_pod_goes_where_its_device_is_and_holds_it() -> None:
    one = Scheduler(cluster([asking("p", "c")], claim("c", [request("r", 1, f'{MODEL} == "y"')])))
    assert one.run().placements == {"default/p": "c"}
    assert devices_of(one, "c") == [("pool-c", "d0")]
    status = held(one, "c").status
    assert [each.name for each in status.reserved_for] == ["p"]
    assert held(one, "c").metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert status.allocation is not None
    assert status.allocation.node_selector is not None


def test_devices_are_given_once() -> None:
    claims = [claim(f"c{at}", [request()]) for at in range(3)]
    one = Scheduler(cluster([asking(f"p{at}", f"c{at}") for at in range(3)], *claims))
    result = one.run()
    assert sorted(result.placements.values()) == ["b", "c"]
    (failed,) = result.unschedulable.values()
    assert failed.reasons == {"cannot allocate all claims": 3}
    # The device of a claim that is deallocated is free again; the pod that waits for it is tried.
    key = next(iter(result.placements)).partition("/")[2]
    status = held(one, f"c{key[1]}").status
    one.client.update(
        replace(held(one, f"c{key[1]}"), status=replace(status, allocation=None, reserved_for=()))
    )
    assert len(one.run().placements) == 1


def test_pods_share_a_claim() -> None:
    one = Scheduler(cluster([asking("p", "c"), asking("q", "c")], claim("c", [request()])))
    assert len(set(one.run().placements.values())) == 1
    assert [each.name for each in held(one, "c").status.reserved_for] == ["p", "q"]


def test_a_pod_without_its_claim_is_not_ready() -> None:
    one = Scheduler(cluster([asking("p", "c")]))
    assert one.run().placements == {}
    one.client.create(claim("c", [request()]))
    assert list(one.run().placements) == ["default/p"]


def test_a_transaction_takes_allocations_back() -> None:
    one = Scheduler(
        cluster([asking("p", "c"), asking("q", "d")], claim("c", [request()]), claim("d", [request()]))
    )
    with one.transaction():
        assert len(one.run().placements) == 2
        assert devices_of(one, "c")
    assert devices_of(one, "c") == []
    assert held(one, "c").status.reserved_for == ()
    assert len(one.run().placements) == 2


def test_forks_have_devices_of_their_own() -> None:
    one = Scheduler(
        cluster([asking("p", "c"), asking("q", "d")], claim("c", [request()]), claim("d", [request()]))
    )
    other = one.fork()
    assert len(other.run().placements) == 2
    assert devices_of(one, "c") == []
    assert len(one.run().placements) == 2


def test_pods_without_claims_are_placed_as_ever() -> None:
    pods = [asking("p", "c"), pod("q", requests={"cpu": "1"}), pod("r", requests={"cpu": "1"})]
    one = Scheduler(cluster(pods, claim("c", [request()])))
    assert set(one.run().placements) == {"default/p", "default/q", "default/r"}


def test_extended_resources_come_from_devices() -> None:
    """Of two nodes with a device each, one has the resource itself as well, which is used first there."""
    pods = [pod(name, requests={"example.com/gpu": "1"}) for name in "pqr"]
    provided = cluster(pods, extended="example.com/gpu")
    provided.nodes[0] = node("a", **{"example.com/gpu": "1"})
    one = Scheduler(provided)
    assert set(one.run().placements.values()) == {"a", "b", "c"}
    claims = one.client.list(ResourceClaim)[0]
    assert sorted(devices_of(one, each.name) for each in claims) == [[("pool-b", "d0")], [("pool-c", "d0")]]
    for each in claims:
        (owner,) = each.metadata.owner_references
        status = one.client.get(Pod, owner.name, "default").status.extended_resource_claim_status
        assert status is not None
        assert status.resource_claim_name == each.name


def test_more_than_the_devices_of_a_node_do_not_fit() -> None:
    provided = cluster([pod("p", requests={"example.com/gpu": "2"})], extended="example.com/gpu")
    (failed,) = Scheduler(provided).run().unschedulable.values()
    assert failed.reasons == {"cannot allocate all claims": 3}


def test_an_expression_that_fails_is_an_error_of_the_pod() -> None:
    one = Scheduler(cluster([asking("p", "c")], claim("c", [request("r", 1, f"{MODEL}.none == 1")])))
    (failed,) = one.run().unschedulable.values()
    assert "selector #0: CEL" in failed.error


def test_a_claim_is_looked_at_for_its_own_pods_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(claim: ResourceClaim, pod: Pod) -> bool:
        asked.append(pod.name)
        return may_be_of(claim, pod)

    one = Scheduler(cluster([asking(f"p{at}", f"c{at}") for at in range(12)]))
    assert one.run().placements == {}
    monkeypatch.setattr(claim_hints, "may_be_of", count)
    one.client.create(claim("other", [request()]))
    one.client.create(claim("c3", [request()]))
    assert list(one.run().placements) == ["default/p3"]
    assert set(asked) == {"p3"}


@pytest.mark.parametrize(("timeout", "ends"), [("10s", True), ("0", True), ("2s", False)])
def test_a_search_ends_in_time_as_upstreams_would(timeout: str, ends: bool) -> None:
    """No 21 of 40 devices are of one of two models, which takes 2,097,153 steps to find out."""
    devices = [device(f"d{at:02}", {"model": f"m{at % 2}"}) for at in range(40)]
    wanted = claim("c", [request(count=21)], [{"matchAttribute": f"{DRIVER}/model"}])
    world = [device_class("gpu"), resource_slice("a", devices), wanted]
    arguments = {"name": "DynamicResources", "args": {"filterTimeout": timeout}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = kind | {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [arguments]}]}
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[asking("p", "c")], others=world), config=config)
    (text,) = one.run().unschedulable.values()
    if ends:
        assert "1 cannot allocate all claims" in str(text)
    else:
        assert "node a: timed out trying to allocate devices" in str(text)


@pytest.mark.parametrize(("version", "waits"), [("1.36", 1), ("1.37", 0)])
def test_the_deletion_of_a_claim_with_devices_wakes_pods(version: str, waits: int) -> None:
    taken = {"request": "r", "driver": DRIVER, "device": "d0"}
    holding = [
        claim(f"x{at}", [request()], allocation={"devices": {"results": [taken | {"pool": f"pool-{at}"}]}})
        for at in "bc"
    ]
    bare = claim("bare", [request()])
    made = cluster([asking("p", "c")], claim("c", [request()]), bare, *holding)
    one = Scheduler(made, kubernetes_version=version)

    def waiting() -> int:
        one.sync()
        return len(one.queue.pending_pods().unschedulable)

    assert not one.run().placements
    one.client.delete(ResourceClaim, "bare", "default")
    assert waiting() == 1
    one.client.delete(ResourceClaim, "xc", "default")
    assert waiting() == waits


@pytest.mark.parametrize(("version", "is_pending"), [("1.36", False), ("1.37", True)])
def test_an_allocation_is_in_flight_while_prebind_waits(version: str, is_pending: bool) -> None:
    binds = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    made = cluster([asking("p", "c")], claim("c", [request()]))
    made.others[1:3] = [resource_slice("b", [device("d0", **binds)])]
    seen: list[bool] = []
    now = 1_767_225_600.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        cache = plugin.devices.claim_cache
        seen.append(cache.is_pending("uid-c"))
        told = {"type": "attached", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        report = {"driver": DRIVER, "pool": "pool-b", "device": "d0", "conditions": [told]}
        written = held(one, "c")
        assert written.status.allocation is not None
        devices = (decode(report, AllocatedDeviceStatus),)
        one.client.update(replace(written, status=replace(written.status, devices=devices)))

    one = Scheduler(made, kubernetes_version=version, clock=lambda: now, wait=wait)
    plugin = next(each for each in one.profile.plugins if isinstance(each, DynamicResources))
    assert one.run().placements == {"default/p": "b"}
    assert seen
    assert seen[0] is is_pending
    assert not plugin.devices.claim_cache.is_pending("uid-c")


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_a_pod_with_a_new_claim_and_one_with_devices_cannot_be_scored_in_v1_35(
    version: str, nodes: int
) -> None:
    """Among several nodes; a single one needs no score."""
    names = [f"n{at}" for at in range(nodes)]
    allocation = {"devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "x", "device": "y"}]}}
    given = claim("given", [request("r")], allocation=allocation)
    slices = [resource_slice(name, [device("d0")]) for name in names]
    others = [device_class(), given, claim("new", [request("r")]), *slices]
    asked = asking("p", "given", "new")
    one = Scheduler(
        mo.Cluster(nodes=[node(name) for name in names], pods=[asked], others=others),
        kubernetes_version=version,
    )
    fails = version == "1.35" and nodes > 1
    if fails:
        assert "number of allocations 1 is smaller than number of claims" in str(one.examine(asked).error)
    one.run()
    assert bool(one.client.get(Pod, "p", "default").spec.node_name) != fails
