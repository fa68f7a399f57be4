"""What nodes see of slices, and what views of nodes share."""

from __future__ import annotations

from tests.devices.make import DRIVER, device, named_node, resource_slice
from tests.doors.engine import Features

from moorage.engine.devices import DeviceSlices


def test_a_node_sees_no_pools_whose_devices_others_have() -> None:
    counters = [{"name": "s", "counters": {"a": {"value": "3"}}}]
    devices = [device("d", consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": "1"}}}])]
    published = [
        each
        for at in range(20)
        for each in (
            resource_slice(f"n{at}", [], name=f"{at}-c", count=3 if at > 15 else 2, sharedCounters=counters),
            resource_slice(f"n{at}", devices, name=f"{at}-d", count=3 if at > 15 else 2),
        )
    ]
    slices = DeviceSlices(published, Features())
    names = [[pool.name for pool in slices.pools_of(named_node(f"n{at}"))] for at in range(20)]
    assert names[0] == ["pool-n0", "pool-n16"]
    assert names[17] == ["pool-n16", "pool-n17"]


def test_views_of_nodes_whose_slices_differ_in_names_share_columns_and_not_the_state() -> None:
    equal = [resource_slice(f"n{at}", [device("a"), device("b")]) for at in range(2)]
    other = resource_slice("n2", [device("a"), device("b", taints=[{"key": "k", "effect": "NoSchedule"}])])
    slices = DeviceSlices([*equal, other], Features())
    nodes = [named_node(f"n{at}") for at in range(3)]
    first, second, third = [slices.new_view(node, slices.pools_of(node), False) for node in nodes]
    assert second.like is first
    assert third.like is None
    taken = second.device(0)
    assert taken is second.devices[0]
    assert taken.id == second.id_of(0) == (DRIVER, "pool-n1", "a")
    second.set_state(taken.id, True, None)
    assert (first.version, second.version) == (0, 1)
