"""Which devices claims get on a node: the first solution in the order of pools, devices and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.devices.make import DRIVER, claim, device, device_class, named_node, request, resource_slice
from tests.doors.engine import (
    AllocatedDevices,
    AllocationError,
    ClaimRequests,
    Features,
    PoolsInvalidError,
    SearchTimeoutError,
)

from moorage.devices import Allocator, DeviceSlices, SelectorCache
from moorage.objects import ResourceClaim, ResourceSlice

NODE = named_node("n")
MODEL = f'device.attributes["{DRIVER}"].model'


def allocator(slices: Sequence[ResourceSlice], *in_use: str, max_steps: int = 0) -> Allocator:
    features = Features()
    used = AllocatedDevices({(DRIVER, "pool-n", name) for name in in_use})
    classes = {"gpu": device_class()}
    return Allocator(DeviceSlices(slices, features), features, used, classes.get, SelectorCache(), max_steps)


def allocate(
    slices: Sequence[ResourceSlice], claims: Sequence[ResourceClaim], *in_use: str, max_steps: int = 0
) -> list[list[str]] | None:
    """The names of the devices of each claim."""
    one = allocator(slices, *in_use, max_steps=max_steps)
    found = one.allocate(NODE, [ClaimRequests.of(each) for each in claims])
    if found is None:
        return None
    return [[each.device.id[2] for each in result.devices] for result in found]


def models(*names: str) -> list[dict[str, Any]]:
    return [device(f"d{at}", {"model": name}) for at, name in enumerate(names)]


# ---- a twin that tries every choice ------------------------------------------------------------------------


def first_choice(
    devices: Sequence[str], in_use: set[int], requests: Sequence[tuple[int, str]], must_match: bool
) -> list[int] | None:
    """The first choice, in lexicographic order, of devices for all places of all requests."""
    wanted = [model for count, model in requests for _ in range(count)]
    for choice in product(range(len(devices)), repeat=len(wanted)):
        if len(set(choice)) < len(choice) or in_use.intersection(choice):
            continue
        chosen = [devices[at] for at in choice]
        if any(model not in ("", have) for model, have in zip(wanted, chosen, strict=True)):
            continue
        if not must_match or len(set(chosen)) <= 1:
            return list(choice)
    return None


@given(
    st.lists(st.sampled_from("ab"), min_size=1, max_size=5),
    st.sets(st.integers(0, 4), max_size=2),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from(("", "a", "b"))), min_size=1, max_size=2),
    st.booleans(),
)
def test_the_first_solution_is_found(
    devices: list[str], in_use: set[int], wanted: list[tuple[int, str]], must_match: bool
) -> None:
    requests = [
        request(f"r{at}", count, *([f'{MODEL} == "{model}"'] if model else []))
        for at, (count, model) in enumerate(wanted)
    ]
    constraints = [{"matchAttribute": f"{DRIVER}/model"}] if must_match else []
    found = allocate(
        [resource_slice("n", models(*devices))],
        [claim("c", requests, constraints)],
        *[f"d{at}" for at in in_use],
    )
    choice = first_choice(devices, in_use, wanted, must_match)
    assert found == (None if choice is None else [[f"d{at}" for at in choice]])


# ---- single rules ------------------------------------------------------------------------------------------


def test_claims_share_the_devices_of_a_node() -> None:
    two = [claim("a", [request()]), claim("b", [request()])]
    assert allocate([resource_slice("n", models("x", "x"))], two) == [["d0"], ["d1"]]
    assert allocate([resource_slice("n", models("x"))], two) is None
    assert allocate([resource_slice("other", models("x", "x"))], two) is None


def test_mode_all_takes_all_devices_or_none() -> None:
    every = claim("a", [request(allocationMode="All", count=0)])
    assert allocate([resource_slice("n", models("x", "y"))], [every]) == [["d0", "d1"]]
    assert allocate([resource_slice("n", models("x", "y"))], [every], "d1") is None


def test_the_first_alternative_that_fits() -> None:
    kinds = [
        {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        for name, count in (("many", 3), ("two", 2), ("one", 1))
    ]
    chosen = allocate(
        [resource_slice("n", models("x", "x"))], [claim("a", [{"name": "r", "firstAvailable": kinds}])]
    )
    assert chosen == [["d0", "d1"]]


def test_admin_access_takes_devices_in_use() -> None:
    assert allocate([resource_slice("n", models("x"))], [claim("a", [request(adminAccess=True)])], "d0") == [
        ["d0"]
    ]


def test_tainted_devices_need_a_toleration() -> None:
    tainted = [device("d0", taints=[{"key": "k", "effect": "NoSchedule"}])]
    tolerant = request(tolerations=[{"key": "k", "operator": "Exists"}])
    assert allocate([resource_slice("n", tainted)], [claim("a", [request()])]) is None
    assert allocate([resource_slice("n", tainted)], [claim("a", [tolerant])]) == [["d0"]]


def test_counters_are_shared() -> None:
    counters = [{"name": "set", "counters": {"memory": {"value": "3"}}}]
    consuming = [
        device(f"d{at}", consumesCounters=[{"counterSet": "set", "counters": {"memory": {"value": "2"}}}])
        for at in range(2)
    ]
    slices = [
        resource_slice("n", consuming, count=2),
        resource_slice("n", [], "pool-n", name="counters", count=2, sharedCounters=counters),
    ]
    assert allocate(slices, [claim("a", [request()])]) == [["d0"]]
    assert allocate(slices, [claim("a", [request(count=2)])]) is None


def test_counters_beside_devices() -> None:
    """As in files of scheduler_perf; today's API server takes them in a slice of their own only."""
    counters = [{"name": "set", "counters": {"memory": {"value": "1"}}}]
    consuming = device("d0", consumesCounters=[{"counterSet": "set", "counters": {"memory": {"value": "1"}}}])
    for node, found in (("n", [["d0"]]), ("other", None)):
        assert (
            allocate([resource_slice(node, [consuming], sharedCounters=counters)], [claim("a", [request()])])
            == found
        )


def test_a_class_that_is_missing_is_an_error() -> None:
    missing = claim("a", [request(deviceClassName="none")])
    with pytest.raises(AllocationError, match="none"):
        allocate([resource_slice("n", models("x"))], [missing])


def test_too_many_devices_are_an_error() -> None:
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        allocate([resource_slice("n", models("x"))], [claim("a", [request(count=33)])])


def test_pools_with_the_same_device_twice_are_invalid() -> None:
    twice = [resource_slice("n", [device("d0"), device("d0")])]
    with pytest.raises(PoolsInvalidError):
        allocate(twice, [claim("a", [request()])])


def test_a_search_that_takes_too_long_ends() -> None:
    """Twelve devices of twelve models: no seven of them match."""
    slices = [resource_slice("n", [device(f"d{at}", {"model": f"m{at % 6}"}) for at in range(12)])]
    endless = claim("a", [request(count=3)], [{"matchAttribute": f"{DRIVER}/model"}])
    with pytest.raises(SearchTimeoutError):
        allocate(slices, [endless], max_steps=5)
    assert allocate(slices, [endless]) is None
