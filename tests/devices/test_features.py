"""What each gate about devices switches off."""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.doors.engine import allocator
from tests.make import configuration, pod
from tests.plugins.test_dynamic_resources import cluster

from moorage import Scheduler
from moorage.kube import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    ObjectMeta,
    ResourceClaim,
    ResourceSlice,
)
from moorage.kube.releases import dependents_off

ALTERNATIVES = {
    "name": "r",
    "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}],
}
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "1"}}}]
CONSUMES = [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}]
TAINTS = [{"key": "k", "effect": "NoSchedule"}]


def attempt(
    gates: dict[str, bool], wanted: ResourceClaim, *slices: ResourceSlice, others: tuple[Any, ...] = ()
) -> str:
    """The node of the pod, or why it has none."""
    made = cluster([pod("p", claims=[wanted.name])], wanted, *others)
    made.others[1:3] = slices
    result = Scheduler(made, feature_gates=gates).run()
    for failed in result.unschedulable.values():
        return failed.error or failed.message
    return result.placements["default/p"]


PLAIN = resource_slice("b", [device("d0")])
TAINTED = resource_slice("b", [device("d0", taints=TAINTS)])
SHARED = resource_slice("b", [device("d0", allowMultipleAllocations=True)])
BINDS = resource_slice(
    "b", [device("d0", bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["no"])]
)
PARTITIONED = [
    resource_slice("b", [device("d0", consumesCounters=CONSUMES)], count=2),
    resource_slice("b", [], name="counters", count=2, sharedCounters=COUNTERS),
]


ANY = claim("c", [request()])
AMOUNT = claim("c", [request(capacity={"requests": {"memory": "1Gi"}})])
UNSHARED = claim("c", [request("r", 1, "!device.allowMultipleAllocations")])
LISTED = claim("c", [request("r", 1, f'"a" in device.attributes["{DRIVER}"].many')])
LISTS = resource_slice("b", [device("d0") | {"attributes": {"many": {"strings": ["a", "b"]}}}])
NONE = "cannot allocate all claims"


@pytest.mark.parametrize(
    ("wanted", "slices", "off", "expected"),
    [
        (claim("c", [ALTERNATIVES]), [PLAIN], "", "b"),
        (claim("c", [ALTERNATIVES]), [PLAIN], "DRAPrioritizedList", "DRAPrioritizedList feature is disabled"),
        (ANY, [TAINTED], "", NONE),
        (ANY, [TAINTED], "DRADeviceTaints", "b"),
        (ANY, PARTITIONED, "", "b"),
        (ANY, PARTITIONED, "DRAPartitionableDevices", NONE),
        (AMOUNT, [PLAIN], "", NONE),
        (AMOUNT, [SHARED], "DRAConsumableCapacity", "DRAConsumableCapacity feature is disabled"),
        # The oldest allocator of kube-scheduler does not know the field.
        (UNSHARED, [SHARED], "", NONE),
        (UNSHARED, [SHARED], "DRAConsumableCapacity", NONE),
        (UNSHARED, [SHARED], "DRAConsumableCapacity DRADeviceBindingConditions", "b"),
        (LISTED, [LISTS], "", "attribute many: unsupported attribute value"),
        (ANY, [BINDS], "DRADeviceBindingConditions", NONE),
        (ANY, [BINDS], "DRAResourceClaimDeviceStatus", NONE),
    ],
)
def test_each_gate_switches_its_rule_off(
    wanted: ResourceClaim, slices: list[ResourceSlice], off: str, expected: str
) -> None:
    gates = dict.fromkeys(off.split(), False)
    assert expected in attempt(gates | dependents_off(gates), wanted, *slices)


def test_attributes_that_are_lists() -> None:
    assert attempt({"DRAListTypeAttributes": True}, LISTED, LISTS) == "b"


def test_extended_resources_of_devices_need_their_gate() -> None:
    pods = [pod("p", requests={"example.com/gpu": "1"})]
    assert Scheduler(cluster(pods, extended="example.com/gpu")).run().placements
    off = Scheduler(cluster(pods, extended="example.com/gpu"), feature_gates={"DRAExtendedResource": False})
    (failed,) = off.run().unschedulable.values()
    assert failed.reasons == {"Insufficient example.com/gpu": 3}


def test_taint_rules_count_with_their_gate() -> None:
    taint = DeviceTaint(key="k", effect="NoSchedule")
    rule = DeviceTaintRule(metadata=ObjectMeta(name="all"), spec=DeviceTaintRuleSpec(taint=taint))
    assert attempt({}, ANY, PLAIN, others=(rule,)) == "b"
    assert attempt({"DRADeviceTaintRules": True}, ANY, PLAIN) == "b"
    assert NONE in attempt({"DRADeviceTaintRules": True}, ANY, PLAIN, others=(rule,))


def test_a_search_has_no_limit_without_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 10 ms, so that 10 s are 1,000: a search in vain over 24 devices of two models takes 8,191."""
    monkeypatch.setattr(allocator, "NANOSECONDS_PER_STEP", 10**7)
    slices = resource_slice("b", [device(f"d{at:02}", {"model": f"m{at % 2}"}) for at in range(24)])
    wanted = claim("c", [request(count=13)], [{"matchAttribute": f"{DRIVER}/model"}])
    assert "timed out trying to allocate devices" in attempt({}, wanted, slices)
    off = {"DRASchedulerFilterTimeout": False}
    assert "cannot allocate all claims" in attempt(off, wanted, slices)


def test_scoring_of_a_class_with_selectors() -> None:
    """Where kube-scheduler v1.36.2 panics, there is one error; where it does not, there is none."""
    resources = [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]
    plugin = {"name": "NodeResourcesBalancedAllocation", "args": {"resources": resources}}
    config = configuration(profiles=[{"pluginConfig": [plugin]}])
    pods = [pod("p", requests={"example.com/gpu": "1"})]
    plain = cluster(pods, extended="example.com/gpu")
    assert Scheduler(plain, config=config).run().placements
    selecting = cluster(pods, extended="example.com/gpu")
    gpus = device_class("gpu", "true", extendedResourceName="example.com/gpu")
    selecting.others[:] = [one for one in selecting.others if one.kind != "DeviceClass"] + [gpus]
    (failed,) = Scheduler(selecting, config=config).run().unschedulable.values()
    assert failed.error == (
        'running PreScore plugin "NodeResourcesBalancedAllocation": kube-scheduler v1.36.2 panics when it '
        "scores example.com/gpu: its DeviceClass gpu has selectors"
    )
    assert Scheduler(selecting).run().placements


def test_an_allocation_that_has_consumed_a_negative_capacity_fails_pods_since_1_38() -> None:
    device_id = {"driver": DRIVER, "pool": "pool-x", "device": "d"}
    results = [{"request": "r", **device_id, "shareID": "1", "consumedCapacity": {"memory": "-1"}}]
    odd = claim("odd", [request()], allocation={"devices": {"results": results}})
    failed = 'running PreFilter plugin "DynamicResources"'
    text = f"{failed}: consumed capacity of device {DRIVER}/pool-x/d is negative"
    for version, expected in (("1.37", "b"), ("1.38", text)):
        made = cluster([pod("p", claims=["c"])], ANY, odd)
        made.others[1:3] = [PLAIN]
        result = Scheduler(made, kubernetes_version=version).run()
        errors = [each.error for each in result.unschedulable.values()]
        assert [*result.placements.values(), *errors] == [expected]
