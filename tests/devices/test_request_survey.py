"""How many devices each rule of a request leaves, compared with what the allocator finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.devices.make import DRIVER, claim, device, device_class, named_node, request, resource_slice
from tests.devices.node_by_node import Allocator
from tests.doors.answers import DeviceSurvey
from tests.doors.engine import AllocatedDevices, ClaimRequests, Features

from moorage import Quantity
from moorage.engine.devices import DeviceSlices, SelectorCache
from moorage.kube import ResourceClaim, ResourceSlice
from moorage.kube.releases import RELEASES

NODE = named_node("n")
MODEL = f'device.attributes["{DRIVER}"].model'
GPU = device_class("gpu", f'device.driver == "{DRIVER}"')
FEATURES = Features()


def holding(name: str, *devices: str, node: str = "n", **more: Any) -> ResourceClaim:
    """A claim with devices."""
    of = {"request": "r", "driver": DRIVER, "pool": f"pool-{node}"} | more
    results = [of | {"device": one} for one in devices]
    return claim(
        name,
        [request()],
        allocation={"devices": {"results": results}},
        reservedFor=[{"resource": "pods", "name": f"pod-{name}", "uid": f"pod-{name}"}],
    )


def in_use(claims: Sequence[ResourceClaim]) -> AllocatedDevices:
    results = [
        one for each in claims if each.status.allocation for one in each.status.allocation.devices.results
    ]
    return AllocatedDevices({(one.driver, one.pool, one.device) for one in results})


def survey(
    slices: Sequence[ResourceSlice],
    asked: ResourceClaim,
    *held: ResourceClaim,
    of: Any = GPU,
    features: Features = FEATURES,
    taken: AllocatedDevices | None = None,
) -> Any:
    requests = ClaimRequests.of(asked)
    allocated = in_use(held) if taken is None else taken
    one = DeviceSurvey(DeviceSlices(slices, features), features, allocated, SelectorCache(), held)
    return one.request([NODE], requests.alternatives[0][0], of, requests.constraints)


def counts(found: Any) -> dict[str, int]:
    return {step.kind: step.devices for step in found.steps}


def consuming(name: str, amount: int, **more: Any) -> dict[str, Any]:
    consumed = [{"counterSet": "set", "counters": {"memory": {"value": str(amount)}}}]
    return device(name, consumesCounters=consumed, **more)


def test_each_rule_takes_some() -> None:
    devices = [
        *(device(f"y{at}", {"model": "y", "half": at % 2}) for at in range(2)),
        device("tainted", {"model": "x"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        *(device(f"x{at}", {"model": "x", "half": at % 2}) for at in range(5)),
    ]
    asked = claim("c", [request("r", 3, f'{MODEL} == "x"')], [{"matchAttribute": f"{DRIVER}/half"}])
    found = survey([resource_slice("n", devices)], asked, holding("other", "x0", "y0"))
    assert counts(found) == {
        "published": 8,
        "class-selector": 8,
        "request-selector": 6,
        "taint": 5,
        "in-use": 4,
        "capacity": 4,
        "counter": 4,
        "constraint": 2,
    }
    assert [step.nodes for step in found.steps] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert found.steps[2].text == f'{MODEL} == "x"'
    (holder,) = found.steps[4].holders
    assert (holder.claim, holder.users, holder.devices) == ("default/other", ("pod-other",), 1)
    assert found.failing_step("n") == 7
    assert found.failing_step("elsewhere") is None


def test_counters_are_held_by_claims_of_other_devices() -> None:
    slices = [
        resource_slice("n", [consuming("whole", 4), consuming("half", 2), consuming("small", 1)], count=2),
        resource_slice(
            "n",
            [],
            "pool-n",
            name="counters",
            count=2,
            sharedCounters=[{"name": "set", "counters": {"memory": {"value": "4"}}}],
        ),
    ]
    found = survey(slices, claim("c", [request("r", 2)]), holding("other", "half"))
    assert counts(found)["in-use"] == 2
    assert counts(found)["counter"] == 1  # the small one still fits
    step = found.steps[-1]
    assert (step.kind, step.nodes) == ("counter", 0)
    assert [(one.claim, one.devices) for one in step.holders] == [("default/other", 1)]


def counted() -> list[ResourceSlice]:
    """Slices of a pool with a tainted device, one of shares and one that takes a counter of 4."""
    taint = [{"key": "k", "effect": "NoSchedule"}]
    shares = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "8"}}}
    devices = [device("tainted", taints=taint), consuming("part", 3), consuming("shares", 3, **shares)]
    sets = {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "4"}}}]}
    return [
        resource_slice("n", devices, count=2),
        resource_slice("n", [], "pool-n", name="counters", count=2, **sets),
    ]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({}, {"taint": 2, "in-use": 2, "capacity": 2, "counter": 2}),
        ({"taints": False}, {"in-use": 3, "capacity": 3, "counter": 3}),
        ({"partitionable": False}, {"taint": 2, "in-use": 2, "capacity": 2, "counter": 0}),
        ({"consumable_capacity": False}, {"taint": 2, "in-use": 2, "counter": 2}),
    ],
)
def test_a_gate_that_is_off_takes_its_rule_along(features: dict[str, Any], expected: dict[str, int]) -> None:
    found = survey(counted(), claim("c", [request()]), features=Features(**features))
    rules = ("taint", "in-use", "capacity", "counter")
    assert {kind: number for kind, number in counts(found).items() if kind in rules} == expected


@pytest.mark.parametrize(
    ("amount", "release", "left"), [("1", "1.36", 1), (None, "1.36", 0), (None, "1.37", 1)]
)
def test_a_device_of_shares_holds_its_counters_already(amount: str | None, release: str, left: int) -> None:
    """Another share takes no counters again; what takes no amount is one since a release."""
    of = RELEASES[release]
    consumed = {"memory": Quantity(amount)} if amount else {}
    taken = AllocatedDevices(consumed={(DRIVER, "pool-n", "shares"): consumed})
    asked = claim("c", [request(capacity={"requests": {"memory": "1"}})])
    found = survey(counted(), asked, features=Features(release=of), taken=taken)
    assert counts(found)["counter"] == left


def test_an_administrator_shares_devices_that_are_in_use() -> None:
    slices = [resource_slice("n", [device("d0"), device("d1")])]
    admin = claim("c", [request(adminAccess=True)])
    assert "in-use" not in counts(survey(slices, admin, holding("other", "d0")))
    looking = holding("looking", "d0", adminAccess=True)
    found = survey(slices, claim("c", [request("r", 2)]), holding("other", "d0"), looking)
    (step,) = (step for step in found.steps if step.kind == "in-use")
    assert [one.claim for one in step.holders] == ["default/other"]


def test_a_constraint_counts_for_the_requests_that_it_names() -> None:
    slices = [resource_slice("n", [device("d0", {"model": "x"}), device("d1", {"model": "y"})])]
    constraint = {"matchAttribute": f"{DRIVER}/model"}
    for requests, expected in (([], 1), (["r"], 1), (["other"], None)):
        asked = claim("c", [request()], [constraint | {"requests": requests}])
        assert counts(survey(slices, asked)).get("constraint") == expected


def test_an_attribute_is_found_by_its_full_name_and_compared_by_its_type() -> None:
    """Values of two types are never equal."""
    values = [{"int": 1}, {"bool": True}, {"bool": True}, {"version": "1.0.0"}, {"string": "1"}]
    devices = [{"name": f"d{at}", "attributes": {"x.io/a": one}} for at, one in enumerate(values)]
    asked = claim("c", [request()], [{"matchAttribute": "x.io/a"}])
    assert counts(survey([resource_slice("n", devices)], asked))["constraint"] == 2
    distinct = claim("c", [request()], [{"distinctAttribute": "x.io/a"}])
    for release, left in (("1.36", 5), ("1.37", 4)):
        of = Features(release=RELEASES[release])
        found = survey([resource_slice("n", devices)], distinct, features=of)
        assert counts(found)["constraint"] == left


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "k"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Equal", "key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
    ],
)
def test_a_toleration_is_for_its_key_value_and_effect(toleration: dict[str, str], tolerates: bool) -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    slices = [resource_slice("n", [device("d0", taints=taints)])]
    found = survey(slices, claim("c", [request(tolerations=[toleration])]))
    assert counts(found)["taint"] == tolerates


def test_expressions_that_fail_end_a_survey() -> None:
    slices = [resource_slice("n", [device("d0")])]
    found = survey(slices, claim("c", [request("r", 1, f"{MODEL} == 1", "true")]))
    assert found.steps[-1].error == "no such key: model"
    assert [step.kind for step in found.steps] == ["published", "class-selector", "request-selector"]
    found = survey(slices, claim("c", [request("r", 1, "device.none")]))
    assert "undefined field 'none'" in found.steps[-1].error


def test_a_class_that_does_not_exist() -> None:
    found = survey([resource_slice("n", [device("d0")])], claim("c", [request(deviceClassName="h")]), of=None)
    assert found.steps[-1].error == "device class h does not exist"
    assert found.failing_step("n") == 1


def test_all_needs_every_matching_device() -> None:
    every = claim("c", [request(allocationMode="All", count=0)])
    slices = [resource_slice("n", [device("d0"), device("d1")])]
    assert survey(slices, every).failing_step("n") is None
    found = survey(slices, every, holding("other", "d1"))
    assert (found.wanted("n"), found.failing_step("n")) == (2, 3)
    assert survey([], every).failing_step("n") == 0


def test_devices_that_a_distinct_attribute_excludes_are_counted() -> None:
    distinct = claim("c", [request("r", 2)], [{"distinctAttribute": f"{DRIVER}/model"}])
    same = [device(f"d{at}", {"model": "x"}) for at in range(3)]
    assert counts(survey([resource_slice("n", same)], distinct))["constraint"] == 1
    assert (
        counts(survey([resource_slice("n", [*same, device("d3", {"model": "y"})])], distinct))["constraint"]
        == 4
    )


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=6),
    st.sets(st.integers(0, 5), max_size=3),
    st.integers(1, 4),
    st.sampled_from(("", "a", "b")),
    st.booleans(),
)
def test_the_allocator_agrees(
    devices: list[tuple[str, bool]], used: set[int], count: int, wanted: str, tolerates: bool
) -> None:
    taint = [{"key": "k", "effect": "NoExecute"}]
    published = [
        device(f"d{at}", {"model": model}, taints=taint if tainted else [])
        for at, (model, tainted) in enumerate(devices)
    ]
    selectors = [f'{MODEL} == "{wanted}"'] if wanted else []
    asked = claim("c", [request("r", count, *selectors)])
    if tolerates:
        (one,) = asked.spec.devices.requests
        assert one.exactly is not None
        tolerant = claim("c", [request("r", count, *selectors, tolerations=[{"operator": "Exists"}])])
        asked = replace(asked, spec=tolerant.spec)
    held = [holding("other", *[f"d{at}" for at in sorted(used) if at < len(devices)])]
    slices = [resource_slice("n", published)]
    one_cycle = Allocator(
        DeviceSlices(slices, FEATURES), FEATURES, in_use(held), {"gpu": GPU}.get, SelectorCache()
    )
    found = one_cycle.allocate(NODE, [ClaimRequests.of(asked)])
    assert (found is None) == (survey(slices, asked, *held).failing_step("n") is not None)
