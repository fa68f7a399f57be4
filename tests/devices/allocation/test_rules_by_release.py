"""What the allocation of devices does since v1.37 or v1.38, and did before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.devices.make import DRIVER, claim, device, device_class, named_node, request, resource_slice
from tests.devices.node_by_node import Allocator
from tests.doors.engine import (
    AllocatedDevices,
    AllocationError,
    ClaimRequests,
    ClaimResult,
    Features,
    PoolsInvalidError,
    allocation_of,
)

from moorage import Quantity
from moorage.engine.devices import DeviceSlices, SelectorCache
from moorage.kube import ResourceClaim, ResourceSlice
from moorage.kube.releases import RELEASES, default_gates, feature_gates

Json = dict[str, Any]
NODE = named_node("n")
BEFORE, SINCE = Features.of(default_gates(RELEASES["1.36"])), Features.of(default_gates(RELEASES["1.37"]))
BETA = Features.of(default_gates(RELEASES["1.38"]))
FRACTIONS = replace(SINCE, fractional_capacity=True)
CONFIG = {"opaque": {"driver": DRIVER, "parameters": {"kind": "Config"}}}


def search(
    features: Features,
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    consumed: Mapping[Any, Mapping[str, Quantity]] | None = None,
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


def shareable(name: str, capacity: str, **more: Any) -> Json:
    return device(name, allowMultipleAllocations=True, capacity={"memory": {"value": capacity} | more})


def asking(amount: str, **more: Any) -> ResourceClaim:
    return claim("c", [request(capacity={"requests": {"memory": amount}}, **more)])


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


def versioned(name: str, version: str) -> Json:
    return device(name) | {"attributes": {"version": {"version": version}}}


ALIKE = claim("c", [request("r", 2)], [{"matchAttribute": f"{DRIVER}/version"}])


def test_versions_are_compared_without_build_metadata_since_1_38() -> None:
    texts = ["1.0.0+a", "1.0.0-rc.1", "1.0.0+b"]
    slices = [resource_slice("n", [versioned(f"d{at}", text) for at, text in enumerate(texts)])]
    assert search(SINCE, slices, ALIKE) is None
    assert names(search(BETA, slices, ALIKE)) == ["d0", "d2"]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (
            {"version": "1.0"},
            "attribute VERSION: parse semantic version: No Major.Minor.Patch elements found",
        ),
        ({}, "attribute VERSION: unsupported attribute value"),
    ],
)
def test_an_attribute_that_cannot_be_read_is_an_error_since_1_38(attribute: Json, text: str) -> None:
    odd = device("d") | {"attributes": {"version": attribute}}
    good = [versioned(f"d{at}", "1.0.0") for at in range(2)]
    slices = [resource_slice("n", [odd, *good])]
    assert names(search(SINCE, slices, ALIKE)) == ["d0", "d1"]
    text = text.replace("VERSION", f"{DRIVER}/version")
    assert error(BETA, slices, ALIKE) == f"claim default/c, request r: device {DEVICE}: {text}"
    unasked = claim("c", [request("r", 2)])
    assert names(search(BETA, slices, unasked)) == ["d", "d0"]


def test_a_device_that_may_no_longer_be_shared_is_kept_for_its_shares_since_1_38() -> None:
    slices = [resource_slice("n", [device("d", capacity={"memory": {"value": "4"}}), device("e")])]
    shares = {(DRIVER, "pool-n", "d"): {"memory": Quantity("1")}}
    wanted = claim("c", [request(capacity={"requests": {"memory": "2"}})])
    assert names(search(SINCE, slices, wanted, consumed=shares)) == ["d"]
    assert search(BETA, slices, wanted, consumed=shares) is None
    admin = claim("c", [request(adminAccess=True, capacity={"requests": {"memory": "2"}})])
    assert names(search(BETA, slices, admin, consumed=shares)) == ["d"]


def test_a_negative_request_of_capacity_is_an_error_before_it_is_rounded_since_1_38() -> None:
    policy = {"default": "1", "validRange": {"min": "1"}}
    slices = [resource_slice("n", [shareable("d", "4", requestPolicy=policy)])]
    assert names(search(SINCE, slices, asking("-1"))) == ["d"]
    assert error(BETA, slices, asking("-1")) == (
        f'{START} {DEVICE}: capacity "memory": capacity value is negative'
    )
