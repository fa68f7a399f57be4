"""What the allocation of devices does since v1.37, and did before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.devices.make import DRIVER, claim, device, device_class, named_node, request, resource_slice
from tests.doors.engine import (
    AllocatedDevices,
    AllocationError,
    ClaimRequests,
    ClaimResult,
    DeviceId,
    Features,
    PoolsInvalidError,
    allocation_of,
)

from moorage import Quantity
from moorage.devices import Allocator, DeviceSlices, SelectorCache
from moorage.objects import ResourceClaim, ResourceSlice
from moorage.releases import RELEASES, default_gates, feature_gates

Json = dict[str, Any]
NODE = named_node("n")
BEFORE, SINCE = Features.of(default_gates(RELEASES["1.36"])), Features.of(default_gates(RELEASES["1.37"]))
FRACTIONS = replace(SINCE, fractional_capacity=True)
OTHER = "other.example.com"
CONFIG = {"opaque": {"driver": DRIVER, "parameters": {"kind": "Config"}}}


def search(
    features: Features,
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    consumed: Mapping[DeviceId, Mapping[str, Quantity]] | None = None,
    config: Sequence[Json] = (),
) -> list[ClaimResult] | None:
    classes = {"gpu": device_class(config=list(config)), "other": device_class("other")}
    selectors = SelectorCache(list_attributes=features.list_attributes)
    allocated = AllocatedDevices(set(), consumed or {})
    one = Allocator(DeviceSlices(slices, features), features, allocated, classes.get, selectors)
    return one.allocate(NODE, [ClaimRequests.of(each) for each in claims])


def names(found: list[ClaimResult] | None) -> list[str] | None:
    return None if found is None else [one.device.id[2] for result in found for one in result.devices]


def error(features: Features, slices: Sequence[ResourceSlice], *claims: ResourceClaim) -> str:
    with pytest.raises((AllocationError, PoolsInvalidError)) as failed:
        search(features, slices, *claims)
    return str(failed.value)


@pytest.mark.parametrize(
    ("requests", "before", "since"),
    [
        ([], [[]], [[]]),
        (["r"], [["r"]], [["r"]]),
        (["r", "s"], [["r", "s"], ["r", "s"]], [[]]),
        (["s/one", "r"], [["s/one", "r"], ["s/one", "r"]], [[]]),
        (["s/none"], [], []),
    ],
)
def test_a_configuration_of_a_claim(
    requests: list[str], before: list[list[str]], since: list[list[str]]
) -> None:
    """Once for each request that it names; since v1.37 once, and for all requests without their names."""
    alternatives = [{"name": "one", "deviceClassName": "other", "allocationMode": "ExactCount", "count": 1}]
    wanted = claim(
        "c",
        [request("r"), {"name": "s", "firstAvailable": alternatives}],
        (),
        [CONFIG | {"requests": requests}],
    )
    for features, expected in ((BEFORE, before), (SINCE, since)):
        found = search(features, [resource_slice("n", [device("d0"), device("d1")])], wanted)
        assert found is not None
        config = allocation_of(found[0], NODE.name, features).devices.config
        assert [list(one.requests) for one in config] == expected


def test_a_configuration_of_the_class_of_all_requests() -> None:
    for features, expected in ((BEFORE, ["r", "s"]), (SINCE, [])):
        found = search(
            features,
            [resource_slice("n", [device("d0"), device("d1")])],
            claim("c", [request("r"), request("s")]),
            config=[CONFIG],
        )
        assert found is not None
        (one,) = allocation_of(found[0], NODE.name, features).devices.config
        assert list(one.requests) == expected


def counting(driver: str, amount: str, **where: Any) -> list[ResourceSlice]:
    """A pool of two slices: one with a counter, and one with a device that takes 2 of it."""
    counters = [{"name": "s", "counters": {"a": {"value": amount}}}]
    taken = [{"counterSet": "s", "counters": {"a": {"value": "2"}}}]
    return [
        resource_slice("n", [], "p", f"{driver}-c", 2, driver=driver, sharedCounters=counters, **where),
        resource_slice("n", [device("d", consumesCounters=taken)], "p", f"{driver}-d", 2, driver=driver),
    ]


def test_counters_of_equally_named_pools_of_two_drivers() -> None:
    """Those of the first driver once limited both."""
    slices = [*counting(DRIVER, "3"), *counting(OTHER, "3")]
    assert names(search(BEFORE, slices, claim("c", [request(count=2)]))) is None
    assert names(search(SINCE, slices, claim("c", [request(count=2)]))) == ["d", "d"]


def test_an_invalid_pool_of_which_a_node_has_no_device() -> None:
    sets = [{"name": "s", "counters": {"a": {"value": "1"}}}] * 2
    invalid = [
        resource_slice("m", [], "p", name, 2, driver=OTHER, sharedCounters=sets[:1]) for name in ("x", "y")
    ]
    slices = [*invalid, resource_slice("n", [device("d")])]
    wanted = claim("c", [request(count=2)])
    assert error(BEFORE, slices, wanted) == "invalid resource pools were encountered"
    assert search(SINCE, slices, wanted) is None


def test_counters_of_a_slice_that_is_for_another_node() -> None:
    """The pool is whole and valid in the eyes of a node that has its device."""
    slices = counting(DRIVER, "2", nodeName="m")
    for features in (BEFORE, SINCE):
        assert names(search(features, slices, claim("c", [request()]))) == ["d"]
        assert names(search(features, slices[1:], claim("c", [request()]))) is None


def test_slices_of_a_pool_are_tried_by_name_whoever_can_use_them() -> None:
    shared = resource_slice("n", [device("d0")], "p", "a", 2, nodeName=None, allNodes=True)
    own = resource_slice("n", [device("d1")], "p", "b", 2)
    for features in (BEFORE, SINCE):
        assert names(search(features, [own, shared], claim("c", [request()]))) == ["d0"]


def test_a_distinct_attribute_within_one_request() -> None:
    """A device was compared with the one before it alone."""
    devices = [device(f"d{at}", {"model": model}) for at, model in enumerate(("a", "b", "a", "c"))]
    wanted = claim("c", [request(count=3)], [{"distinctAttribute": f"{DRIVER}/model"}])
    slices = [resource_slice("n", devices)]
    assert names(search(BEFORE, slices, wanted)) == ["d0", "d1", "d2"]
    assert names(search(SINCE, slices, wanted)) == ["d0", "d1", "d3"]


def shareable(name: str, capacity: str, **more: Any) -> Json:
    return device(name, allowMultipleAllocations=True, capacity={"memory": {"value": capacity} | more})


def asking(amount: str, **more: Any) -> ResourceClaim:
    return claim("c", [request(capacity={"requests": {"memory": amount}}, **more)])


def test_all_devices_of_which_one_is_full() -> None:
    slices = [resource_slice("n", [shareable("d0", "4"), shareable("d1", "4")])]
    consumed = {(DRIVER, "pool-n", "d0"): {"memory": Quantity("3")}}
    wanted = asking("2", allocationMode="All", count=0)
    assert names(search(BEFORE, slices, wanted, consumed=consumed)) == ["d1"]
    assert search(SINCE, slices, wanted, consumed=consumed) is None
    assert names(search(SINCE, slices, wanted)) == ["d0", "d1"]


def test_a_share_without_amounts_and_shared_counters() -> None:
    counters = [{"name": "s", "counters": {"a": {"value": "2"}}}]
    taken = [{"counterSet": "s", "counters": {"a": {"value": "2"}}}]
    several = device("d", allowMultipleAllocations=True, consumesCounters=taken)
    slices = [
        resource_slice("n", [], "p", "c", 2, sharedCounters=counters),
        resource_slice("n", [several], "p", "d", 2),
    ]
    consumed: dict[DeviceId, dict[str, Quantity]] = {(DRIVER, "p", "d"): {}}
    assert search(BEFORE, slices, claim("c", [request()]), consumed=consumed) is None
    assert names(search(SINCE, slices, claim("c", [request()]), consumed=consumed)) == ["d"]


@pytest.mark.parametrize(
    ("amount", "valid", "before", "since", "in_thousandths"),
    [
        ("1500m", {"min": "1", "step": "1"}, "2", "2", "2"),
        ("1500m", {"min": "500m", "step": "500m"}, "2", "2", "1500m"),
        ("1600m", {"min": "500m", "step": "500m"}, "2", "2", "2"),
        ("3", {"min": "2Ki", "step": "1Ki"}, "2Ki", "2Ki", "2Ki"),
        ("3000", {"min": "1Ki", "step": "1Ki"}, "3Ki", "3Ki", "3Ki"),
        ("3500", {"min": "1k", "step": "1k"}, "4000", "4k", "4k"),
    ],
)
def test_a_requested_capacity_is_rounded(
    amount: str, valid: dict[str, str], before: str, since: str, in_thousandths: str
) -> None:
    policy = {"default": "1", "validRange": valid}
    slices = [resource_slice("n", [shareable("d", "64Ki", requestPolicy=policy)])]
    for features, expected in ((BEFORE, before), (SINCE, since), (FRACTIONS, in_thousandths)):
        found = search(features, slices, asking(amount))
        assert found is not None
        amounts = {name: str(one) for name, one in (found[0].devices[0].consumed or {}).items()}
        assert amounts == {"memory": expected}


START = "claim default/c, request r: checking capacity for device"
DEVICE = f"{DRIVER}/pool-n/d"
RANGE = "capacity request cannot be represented in the device's range arithmetic: "


@pytest.mark.parametrize(
    ("amount", "more", "text"),
    [
        (
            "100u",
            {"validRange": {"min": "0", "step": "1"}},
            "request 100u is not a representable milli value",
        ),
        ("16E", {"validRange": {"min": "0", "step": "100u"}}, "request 16E exceeds MaxInt64"),
        (
            "9223372036854775807m",
            {"validRange": {"min": "0", "step": "1"}},
            "rounding request 9223372036854775807m up to the next step passes the milli-value range",
        ),
    ],
)
def test_a_requested_capacity_that_cannot_be_rounded(amount: str, more: Json, text: str) -> None:
    slices = [resource_slice("n", [shareable("d", "64E", requestPolicy={"default": "1"} | more)])]
    assert error(FRACTIONS, slices, asking(amount)) == f'{START} {DEVICE}: capacity "memory": {RANGE}{text}'
    every = asking(amount, allocationMode="All", count=0)
    assert error(FRACTIONS, slices, every) == f'{START} d: capacity "memory": {RANGE}{text}'


def test_a_negative_capacity() -> None:
    slices = [resource_slice("n", [shareable("d", "4")])]
    assert names(search(BEFORE, slices, asking("-1"))) == ["d"]
    assert error(SINCE, slices, asking("-1")) == (
        f'{START} {DEVICE}: capacity "memory": capacity value is negative'
    )


def test_errors_name_the_device_and_what_helps() -> None:
    slices = [resource_slice("n", [device("d", {"model": "a"})])]
    missing = claim("c", [request("r", 1, f'device.attributes["{DRIVER}"].none == 1')])
    text = "CEL runtime error: no such key: none"
    assert error(BEFORE, slices, missing) == f"claim default/c: selector #0: {text}"
    hint = "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has()"
    assert error(SINCE, slices, missing) == (
        f"claim default/c: selector #0 on device {DEVICE}: {text}. {hint} for optional fields"
    )


def test_too_many_devices() -> None:
    slices = [resource_slice("n", [device("d")])]
    wanted = claim("c", [request("r", 20), request("s", 13)])
    limit = "exceeds the claim limit of 32"
    assert error(BEFORE, slices, wanted) == f"claim default/c: number of requested devices 33 {limit}"
    assert error(SINCE, slices, wanted) == (
        f"claim default/c, request s: adding 13 devices {limit}, with 20 already accounted for"
    )


def test_expressions_see_lists_without_a_gate() -> None:
    slices = [resource_slice("n", [device("d") | {"attributes": {"many": {"strings": ["a", "b"]}}}])]
    wanted = claim("c", [request("r", 1, f'"b" in device.attributes["{DRIVER}"].many')])
    assert "unsupported attribute value" in error(BEFORE, slices, wanted)
    assert names(search(SINCE, slices, wanted)) == ["d"]


@pytest.mark.parametrize(
    ("version", "gates", "expected"),
    [
        ("1.34", {}, ["d9"]),
        ("1.35", {}, ["d9"]),
        ("1.35", {"DRAConsumableCapacity": True}, ["d9"]),
        ("1.36", {}, ["d0"]),
        ("1.36", {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, ["d9"]),
        ("1.37", {}, ["d0"]),
    ],
)
def test_pools_and_slices_are_tried_by_name_or_as_they_are_listed(
    version: str, gates: dict[str, bool], expected: list[str]
) -> None:
    features = Features.of(feature_gates(gates, RELEASES[version]))
    one_pool = [resource_slice("n", [device("d9")], name="s9", count=2)]
    one_pool.append(resource_slice("n", [device("d0")], name="s0", count=2))
    two_pools = [
        resource_slice("n", [device("d9")], pool="p9"),
        resource_slice("n", [device("d0")], pool="p0"),
    ]
    for slices in (one_pool, two_pools):
        assert names(search(features, slices, claim("c", [request("r")]))) == expected


@pytest.mark.parametrize(
    ("version", "nics", "count", "expected"),
    [
        ("1.34", 0, 1, ["r/all d0"]),
        ("1.35", 0, 1, ["r/all d0"]),
        ("1.35", 0, 2, None),
        ("1.35", 1, 2, ["r/all d0", "r/few d2"]),
        ("1.36", 0, 2, ["r/all d0", "r/all d1"]),
        ("1.37", 1, 2, ["r/all d0", "r/all d1"]),
    ],
)
def test_an_alternative_for_all_devices_after_another(
    version: str, nics: int, count: int, expected: list[str] | None
) -> None:
    """Until 1.35, only the first device is looked for as it asks, and others as the first alternative asks,
    of which there is one too few."""

    def alternative(name: str, kind: str, **mode: Any) -> Json:
        selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].kind == '{kind}'"}}
        return {"name": name, "deviceClassName": "gpu", "selectors": [selector]} | mode

    kinds = enumerate(["gpu", "gpu", *["nic"] * nics])
    slices = [resource_slice("n", [device(f"d{at}", {"kind": kind}) for at, kind in kinds])]
    few = alternative("few", "nic", allocationMode="ExactCount", count=count)
    every = alternative("all", "gpu", allocationMode="All")
    wanted = claim("c", [{"name": "r", "firstAvailable": [few, every]}])
    features = Features.of(default_gates(RELEASES[version]))
    found = search(features, slices, wanted)
    devices = None
    if found is not None:
        results = allocation_of(found[0], "n", features).devices.results
        devices = [f"{result.request} {result.device}" for result in results]
    assert devices == expected
