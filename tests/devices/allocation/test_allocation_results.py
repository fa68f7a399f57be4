"""The status of a claim: shares of devices have IDs of their own."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.devices.make import claim, device, device_class, named_node, request, resource_slice
from tests.devices.node_by_node import Allocator
from tests.doors.engine import AllocatedDevices, ClaimRequests, Features, allocation_of

from moorage.engine.devices import DeviceSlices, SelectorCache
from moorage.kube import ResourceClaim

NODE = named_node("n")


def shares(one: ResourceClaim, shared: bool = True) -> list[str | None]:
    """The IDs of the shares that the claim gets of a node's devices."""
    more: dict[str, Any] = {"allowMultipleAllocations": shared}
    slices = [resource_slice("n", [device(name, **more) for name in ("d0", "d1")])]
    features, classes = Features(), {"gpu": device_class()}
    allocator = Allocator(
        DeviceSlices(slices, features), features, AllocatedDevices(), classes.get, SelectorCache()
    )
    found = allocator.allocate(NODE, [ClaimRequests.of(one)])
    assert found is not None
    return [each.share_id for each in allocation_of(found[0], NODE.name, features).devices.results]


def in_state(name: str, version: str) -> ResourceClaim:
    one = claim(name, [request(count=2)])
    return replace(one, metadata=replace(one.metadata, resource_version=version))


def test_a_share_has_another_id_in_each_allocation() -> None:
    first, again, other = shares(in_state("a", "1")), shares(in_state("a", "2")), shares(in_state("b", "1"))
    assert None not in first
    assert len({*first, *again, *other}) == 6
    assert shares(in_state("a", "1")) == first, "the same state gives the same IDs"


def test_a_whole_device_has_no_share() -> None:
    assert shares(in_state("a", "1"), shared=False) == [None, None]
