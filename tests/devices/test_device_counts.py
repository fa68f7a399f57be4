"""What a device class counts for as an extended resource of a node, in scores."""

from __future__ import annotations

import pytest
from tests.devices.make import DRIVER, device, device_class, resource_slice
from tests.doors.engine import AllocatedDevices, DeviceCounts, Features
from tests.make import node

from moorage.engine.devices import DeviceSlices
from moorage.kube import ResourceSlice

FEATURES = Features()
MODEL = f'device.attributes["{DRIVER}"].model'


def count(counts: DeviceCounts, published: ResourceSlice, *selectors: str) -> tuple[int, int]:
    in_use = AllocatedDevices({(DRIVER, "pool-b", "d0")})
    return counts.count(
        node("b"), device_class("gpu", *selectors), DeviceSlices([published], FEATURES), in_use
    )


@pytest.fixture
def counts() -> DeviceCounts:
    return DeviceCounts()


MODELS = resource_slice(
    "b", [device("d0", {"model": "x"}), device("d1", {"model": "y"}), device("d2", {"model": "x"})]
)


def test_devices_that_match_and_those_in_use(counts: DeviceCounts) -> None:
    assert count(counts, MODELS) == (3, 1)
    assert count(counts, MODELS, f'{MODEL} == "x"') == (2, 1)


@pytest.mark.parametrize("selector", [f"{MODEL} == 1 +", f'{MODEL}.size() == 1 && {MODEL} == "x"'])
def test_a_selector_with_an_error_for_one_device_counts_none(counts: DeviceCounts, selector: str) -> None:
    published = resource_slice("b", [device("d0", {"model": "x"}), device("d1", {"size": 1})])
    assert count(counts, published, selector) == (0, 0)


def test_of_a_device_that_has_matched_changes_go_unnoticed(counts: DeviceCounts) -> None:
    """A device that has not matched is looked at again."""
    before, after = (resource_slice("b", [device("d1", {"model": model})]) for model in "xy")
    assert count(counts, before, f'{MODEL} == "x"') == (1, 0)
    assert count(counts, before, f'{MODEL} == "y"') == (0, 0)
    assert count(counts, after, f'{MODEL} == "x"') == (1, 0)
    assert count(counts, after, f'{MODEL} == "y"') == (1, 0)


def test_expressions_see_no_device_that_is_shared(counts: DeviceCounts) -> None:
    published = resource_slice("b", [device("d1", allowMultipleAllocations=True)])
    assert count(counts, published, "device.allowMultipleAllocations") == (0, 0)
    assert count(counts, published, "!device.allowMultipleAllocations") == (1, 0)
