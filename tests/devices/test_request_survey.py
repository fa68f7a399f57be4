"""How many devices each rule of a request leaves, compared with what the allocator finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.devices.make import DRIVER, claim, device, device_class, named_node, request, resource_slice

from moorage.devices import Allocator, DeviceSlices, DeviceSurvey, RequestSurvey, SelectorCache
from moorage.devices.allocation.allocator import AllocatedDevices
from moorage.devices.allocation.claim_requests import ClaimRequests
from moorage.devices.features import Features
from moorage.objects import ResourceClaim, ResourceSlice

NODE = named_node("n")
MODEL = f'device.attributes["{DRIVER}"].model'
GPU = device_class("gpu", f'device.driver == "{DRIVER}"')
FEATURES = Features()


def holding(name: str, *devices: str, node: str = "n") -> ResourceClaim:
    """A claim with devices."""
    results = [{"request": "r", "driver": DRIVER, "pool": f"pool-{node}", "device": one} for one in devices]
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
    slices: Sequence[ResourceSlice], asked: ResourceClaim, *held: ResourceClaim, of: Any = GPU
) -> RequestSurvey:
    requests = ClaimRequests.of(asked)
    one = DeviceSurvey(DeviceSlices(slices, FEATURES), FEATURES, in_use(held), SelectorCache(), held)
    return one.request([NODE], requests.alternatives[0][0], of, requests.constraints)


def counts(found: RequestSurvey) -> dict[str, int]:
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
