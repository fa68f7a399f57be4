"""The slow twin of `DeviceSlices`: every node looks at every slice, as upstream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.doors.engine import (
    DevicePool,
    Features,
    PublishedDevice,
    pod_matches_node_selector,
    properties_of,
)

from moorage import Quantity
from moorage.kube import Affinity, Node, NodeAffinity, NodeSelector, PodSpec, ResourceSlice


class PoolsOfNodes:
    """The pools of each node.

    Parameters
    ----------
    slices : iterable of ResourceSlice
    features : Features
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self.features = features
        self.slices = sorted(slices, key=_name)

    def pools_of(self, node: Node) -> list[DevicePool]:
        """Return all pools of a node, in the order in which their devices are tried."""
        found: dict[tuple[str, str], list[ResourceSlice]] = {}
        for one in self.slices:
            counts = one.spec.shared_counters and self.features.counters_are_everywhere
            if self.is_read(one) and (counts or is_for(one, node)):
                found.setdefault((one.spec.driver, one.spec.pool.name), []).append(one)
        pools = [pool for key, slices in found.items() if (pool := self.pool(node, key, slices)) is not None]
        return sorted(pools, key=lambda pool: (pool.is_last, pool.driver, pool.name))

    def is_read(self, one: ResourceSlice) -> bool:
        needs = one.spec.per_device_node_selection is not None or one.spec.shared_counters
        return self.features.partitionable or not needs

    def pool(self, node: Node, key: tuple[str, str], slices: Sequence[ResourceSlice]) -> DevicePool | None:
        newest = max(one.spec.pool.generation for one in slices)
        slices = [one for one in slices if one.spec.pool.generation == newest]
        every = [one for one in self.slices if (one.spec.driver, one.spec.pool.name) == key]
        others: list[ResourceSlice] = []
        if len(slices) != slices[0].spec.pool.resource_slice_count:
            if any(one.spec.pool.generation > newest for one in every):
                return None
            others = [one for one in every if one.spec.pool.generation == newest and one not in slices]
            if len(slices) + len(others) != slices[0].spec.pool.resource_slice_count:
                return DevicePool(*key, is_incomplete=True)
        devices = [device for one in slices if is_for(one, node) for device in published(one)]
        elsewhere = [device for one in others for device in published(one)]
        if len({one.id for one in devices}) < len(devices):
            return DevicePool(*key, is_invalid=True)
        if not self.features.partitionable:
            return _pool(key, devices)
        sets = [each for one in (*slices, *others) for each in one.spec.shared_counters]
        counters = {
            (one.name, name): Quantity(counter.value)
            for one in sets
            for name, counter in one.counters.items()
        }
        every_device = [*(device for one in slices for device in published(one)), *elsewhere]
        taken = {key for device in every_device for key in device.counters}
        names = {one.counter_set for device in every_device for one in device.device.consumes_counters}
        if len({one.name for one in sets}) < len(sets) or not taken <= counters.keys():
            return DevicePool(*key, is_invalid=True)
        if not names <= {one.name for one in sets}:
            return DevicePool(*key, is_invalid=True)
        return _pool(key, devices, elsewhere, counters)


def _pool(
    key: tuple[str, str],
    devices: list[PublishedDevice],
    elsewhere: Sequence[PublishedDevice] = (),
    counters: Any = None,
) -> DevicePool:
    """A pool by its devices instead of its slices."""
    pool = DevicePool(*key, counters=counters or {})
    pool.devices, pool.elsewhere = devices, [*elsewhere]
    pool.selects_nodes = any(one.slice.spec.per_device_node_selection for one in devices)
    pool.is_last = any(one.device.binding_conditions is not None for one in devices)
    return pool


def _name(one: ResourceSlice) -> str:
    return one.name


def published(one: ResourceSlice) -> list[PublishedDevice]:
    spec = one.spec
    return [
        PublishedDevice((spec.driver, spec.pool.name, each.name), each, one, properties_of(spec.driver, each))
        for each in spec.devices
    ]


def is_for(one: ResourceSlice, node: Node) -> bool:
    """Whether devices of a slice can be used from a node."""

    def is_place(name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
        if name:
            return name == node.name
        if all_nodes or selector is None:
            return bool(all_nodes)
        affinity = Affinity(node_affinity=NodeAffinity(required=selector))
        return pod_matches_node_selector(PodSpec(affinity=affinity), node)

    spec = one.spec
    if spec.per_device_node_selection:
        return any(is_place(each.node_name, each.all_nodes, each.node_selector) for each in spec.devices)
    return is_place(spec.node_name, spec.all_nodes, spec.node_selector)
