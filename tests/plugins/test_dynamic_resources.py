"""DynamicResources at work: devices are allocated, written and held; a transaction takes all back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.doors.engine import claim_cache
from tests.doors.kube import decode
from tests.make import node, pod, scheduler

import moorage as mo
from moorage import Scheduler
from moorage.kube import AllocatedDeviceStatus, Object, Pod, ResourceClaim

MODEL = f'device.attributes["{DRIVER}"].model'


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


def test_devices_are_given_once() -> None:
    claims = [claim(f"c{at}", [request()]) for at in range(3)]
    one = Scheduler(cluster([pod(f"p{at}", claims=[f"c{at}"]) for at in range(3)], *claims))
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


def test_an_expression_that_fails_is_an_error_of_the_pod() -> None:
    one = Scheduler(cluster([pod("p", claims=["c"])], claim("c", [request("r", 1, f"{MODEL}.none == 1")])))
    (failed,) = one.run().unschedulable.values()
    assert "selector #0: CEL" in failed.error


def test_an_allocation_whose_node_selector_is_invalid_is_an_error_of_the_pod() -> None:
    """No API server stores one. A term that is valid, and matches, does not help."""
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Near"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
    ]
    given = claim("c", [request()], allocation={"nodeSelector": {"nodeSelectorTerms": terms}})
    (failed,) = Scheduler(cluster([pod("p", claims=["c"])], given)).run().unschedulable.values()
    assert failed.error == (
        'running PreFilter plugin "DynamicResources": [nodeSelectorTerms[0].matchExpressions[1].operator: '
        'Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", '
        'nodeSelectorTerms[2].matchFields[0].values: Invalid value: ["a","b"]: must have one element]'
    )


def test_a_claim_is_looked_at_for_its_own_pods_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    may_be_of = claim_cache.may_be_of

    def count(claim: ResourceClaim, pod: Pod) -> bool:
        asked.append(pod.name)
        return may_be_of(claim, pod)

    one = Scheduler(cluster([pod(f"p{at}", claims=[f"c{at}"]) for at in range(12)]))
    assert one.run().placements == {}
    monkeypatch.setattr(claim_cache, "may_be_of", count)
    one.client.create(claim("other", [request()]))
    one.client.create(claim("c3", [request()]))
    assert list(one.run().placements) == ["default/p3"]
    assert set(asked) == {"p3"}


@pytest.mark.parametrize(
    ("timeout", "text"),
    [("10s", "cannot allocate all claims"), ("0", "cannot allocate all claims"), ("2s", "node a: timed out")],
)
def test_a_search_ends_in_time_as_upstreams_would(timeout: str, text: str) -> None:
    """No 21 of 40 devices are of one of two models, which takes 2,097,153 steps to find out."""
    devices = [device(f"d{at:02}", {"model": f"m{at % 2}"}) for at in range(40)]
    wanted = claim("c", [request(count=21)], [{"matchAttribute": f"{DRIVER}/model"}])
    plugins = (
        type(plugin)({"filterTimeout": timeout}) if plugin.name == "DynamicResources" else plugin
        for plugin in mo.default_profile().plugins
    )
    objects = node("a"), pod("p", claims=["c"]), device_class("gpu"), resource_slice("a", devices), wanted
    one = scheduler(*objects, profile=mo.Profile((*plugins,)))
    assert text in str(one.run().unschedulable["default/p"])


@pytest.mark.parametrize(("version", "waits"), [("1.36", 1), ("1.37", 0)])
def test_the_deletion_of_a_claim_with_devices_wakes_pods(version: str, waits: int) -> None:
    taken = {"request": "r", "driver": DRIVER, "device": "d0"}
    holding = [
        claim(f"x{at}", [request()], allocation={"devices": {"results": [taken | {"pool": f"pool-{at}"}]}})
        for at in "bc"
    ]
    bare = claim("bare", [request()])
    made = cluster([pod("p", claims=["c"])], claim("c", [request()]), bare, *holding)
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
    made = cluster([pod("p", claims=["c"])], claim("c", [request()]))
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
    plugin = next(each for each in one.profile.plugins if each.name == "DynamicResources")
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
    asked = pod("p", claims=["given", "new"])
    one = Scheduler(
        mo.Cluster(nodes=[node(name) for name in names], pods=[asked], others=others),
        kubernetes_version=version,
    )
    fails = version == "1.35" and nodes > 1
    if fails:
        assert "number of allocations 1 is smaller than number of claims" in str(one.examine(asked).error)
    one.run()
    assert bool(one.client.get(Pod, "p", "default").spec.node_name) != fails
