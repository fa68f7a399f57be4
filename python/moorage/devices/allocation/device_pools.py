"""Pools of devices: what slices of a cluster offer to a node
(k8s.io/dynamic-resource-allocation, structured/internal/incubating)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from moorage._core.base.quantity import Quantity
from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.services.device_view import DeviceView
from moorage.devices.features import Features
from moorage.objects import Node, NodeSelector
from moorage.objects.model.resource_slices import Device, ResourceSlice, ResourceSliceSpec

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
Counters = Mapping[tuple[str, str], Quantity]
"""Amount by counter set and counter."""

_matchers: dict[NodeSelector, NodeSelectorMatcher] = {}
_MAX_MATCHERS = 1 << 12


def selects(selector: NodeSelector, node: Node) -> bool:
    """Whether a node selector selects a node.

    Parameters
    ----------
    selector : NodeSelector
    node : Node

    Returns
    -------
    bool
    """
    if len(_matchers) > _MAX_MATCHERS:
        _matchers.clear()
    matcher = _matchers.get(selector)
    if matcher is None:
        matcher = _matchers[selector] = NodeSelectorMatcher(selector)
    return matcher.matches(node)


@dataclass(eq=False)
class PublishedDevice:
    """A device in its slice.

    Attributes
    ----------
    id : DeviceId
    device : Device
    slice : ResourceSlice
    properties : bytes
        Equal for devices for which expressions have equal results.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice

    @cached_property
    def properties(self) -> bytes:
        device = self.device
        described = (self.id[0], device.allow_multiple_allocations, device.attributes, device.capacity)
        return msgspec.msgpack.encode(described)

    @cached_property
    def counters(self) -> Counters:
        """What the device takes of shared counters."""
        return {
            (one.counter_set, name): Quantity(counter.value)
            for one in self.device.consumes_counters
            for name, counter in one.counters.items()
        }

    @cached_property
    def capacity(self) -> dict[str, Quantity]:
        """The capacities of the device."""
        return {name: Quantity(one.value) for name, one in self.device.capacity.items()}

    def attribute_value(self, name: str) -> tuple[str, object] | tuple[()] | None:
        """Return type and value of an attribute.

        Parameters
        ----------
        name : str
            Its full name; an attribute whose domain is the driver may be published by its name alone.

        Returns
        -------
        (str, object) or tuple or None
            The empty tuple for a list, which equals nothing; None without the attribute.
        """
        attributes = self.device.attributes
        domain, slash, identifier = name.partition("/")
        found = attributes.get(name)
        if found is None and slash and domain == self.id[0]:
            found = attributes.get(identifier)
        if found is None:
            return None
        kinds = (
            ("string", found.string),
            ("int", found.int_),
            ("bool", found.bool_),
            ("version", found.version),
        )
        return next((one for one in kinds if one[1] is not None), ())

    def is_for(self, node: Node) -> bool:
        """Whether the device can be used from a node, as far as the device itself says."""
        if not self.slice.spec.per_device_node_selection:
            return True
        device = self.device
        return _is_for(node, device.node_name or "", bool(device.all_nodes), device.node_selector)


def _is_for(node: Node, name: str, all_nodes: bool, selector: NodeSelector | None) -> bool:
    if name:
        return node.name == name
    return all_nodes or (selector is not None and selects(selector, node))


@dataclass(eq=False)
class PublishedSlice:
    """A slice with its devices."""

    slice: ResourceSlice

    @cached_property
    def devices(self) -> list[PublishedDevice]:
        spec = self.slice.spec
        return [
            PublishedDevice((spec.driver, spec.pool.name, device.name), device, self.slice)
            for device in spec.devices
        ]

    def is_for(self, node: Node) -> bool:
        """Whether the slice offers something to a node; counters belong to all nodes."""
        return bool(self.slice.spec.shared_counters) or self.has_devices_for(node)

    def has_devices_for(self, node: Node) -> bool:
        """Whether a node may use devices of the slice."""
        spec = self.slice.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _is_for(node, spec.node_name or "", bool(spec.all_nodes), spec.node_selector)
        return bool(spec.per_device_node_selection) and any(device.is_for(node) for device in self.devices)


@dataclass(eq=False)
class DevicePool:
    """A pool as one node sees it.

    Attributes
    ----------
    driver, name : str
    devices : list of PublishedDevice
        Those of slices for the node, in order; empty if the pool is incomplete or invalid.
    elsewhere : list of PublishedDevice
        Those of other slices, which may take counters of the pool.
    counters : Counters
        The shared counters of the pool.
    is_incomplete : bool
        Whether slices are missing.
    is_invalid : bool
        Whether the slices contradict one another.
    """

    driver: str
    name: str
    devices: list[PublishedDevice] = field(default_factory=list)
    elsewhere: list[PublishedDevice] = field(default_factory=list)
    counters: Counters = field(default_factory=dict)
    is_incomplete: bool = False
    is_invalid: bool = False

    @cached_property
    def selects_nodes(self) -> bool:
        """Whether devices choose their nodes each."""
        return any(one.slice.spec.per_device_node_selection for one in self.devices)

    @cached_property
    def is_last(self) -> bool:
        """Whether a device has binding conditions: such pools come after all others."""
        return any(one.device.binding_conditions is not None for one in self.devices)


class DeviceSlices:
    """The slices of a cluster, and the pools of each node.

    Parameters
    ----------
    slices : iterable of ResourceSlice
    features : Features
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self._features = features
        self._of_node: dict[str, list[PublishedSlice]] = {}
        self._shared: list[PublishedSlice] = []
        self._of_pool: dict[tuple[str, str], list[PublishedSlice]] = {}
        self._pools: dict[str, tuple[Node, list[DevicePool]]] = {}
        self._alike: dict[Hashable, list[DevicePool]] = {}
        self._built: dict[Hashable, DevicePool] = {}
        self._views: dict[Hashable, DeviceView] = {}
        for one in sorted(slices, key=lambda one: one.name):
            spec, published = one.spec, PublishedSlice(one)
            self._of_pool.setdefault((spec.driver, spec.pool.name), []).append(published)
            if spec.node_name and not spec.shared_counters:
                self._of_node.setdefault(spec.node_name, []).append(published)
            else:
                self._shared.append(published)
        places: list[ResourceSliceSpec | Device] = []
        for published in self._shared:
            places += (published.slice.spec, *published.slice.spec.devices)
        self._names = {place.node_name for place in places if place.node_name}
        selectors = (place.node_selector for place in places)
        self._selectors = list(dict.fromkeys([one for one in selectors if one is not None]))

    def pools_of(self, node: Node) -> list[DevicePool]:
        """Return the pools of a node, in the order in which their devices are tried.

        Parameters
        ----------
        node : Node

        Returns
        -------
        list of DevicePool
        """
        known = self._pools.get(node.name)
        if known is None or known[0] is not node:
            own, is_named = tuple(map(id, self.slices_of(node.name))), node.name in self._names
            answers = tuple([selects(selector, node) for selector in self._selectors])
            alike = own, node.name if is_named else "", answers
            if alike not in self._alike:
                self._alike[alike] = self._gather(node)
            known = self._pools[node.name] = node, self._alike[alike]
        return known[1]

    def view_key(self, node: Node) -> Hashable:
        """Return what nodes with equal views have in common.

        Parameters
        ----------
        node : Node

        Returns
        -------
        hashable
        """
        pools = self.pools_of(node)
        chosen = [one.is_for(node) for pool in pools if pool.selects_nodes for one in pool.devices]
        return tuple(map(id, pools)), tuple(chosen)

    def view_of(self, node: Node) -> DeviceView:
        """Return the view of a node for searches of one caller, who loads its state before each search.

        Parameters
        ----------
        node : Node

        Returns
        -------
        DeviceView
        """
        key = self.view_key(node)
        if key not in self._views:
            self._views[key] = DeviceView(self.pools_of(node), node, self._features, False)
        return self._views[key]

    def devices(self) -> Iterable[PublishedDevice]:
        """Return all devices."""
        return (device for slices in self._of_pool.values() for one in slices for device in one.devices)

    def slices_of(self, node_name: str) -> Sequence[PublishedSlice]:
        """Return the slices of one node, without those that several nodes share."""
        return self._of_node.get(node_name, ())

    @property
    def shared(self) -> Sequence[PublishedSlice]:
        """The slices that several nodes share."""
        return self._shared

    def _gather(self, node: Node) -> list[DevicePool]:
        found: dict[tuple[str, str], list[PublishedSlice]] = {}
        for one in (*self.slices_of(node.name), *self._shared):
            spec = one.slice.spec
            if not self._features.partitionable and (
                spec.per_device_node_selection is not None or spec.shared_counters
            ):
                continue
            if one.is_for(node):
                _add_slice(found, one)
        pools = [pool for key, slices in found.items() if (pool := self._pool(node, key, slices)) is not None]
        return sorted(pools, key=lambda pool: (pool.is_last, pool.driver, pool.name))

    def _pool(self, node: Node, key: tuple[str, str], slices: list[PublishedSlice]) -> DevicePool | None:
        """The pool of its slices for a node; None if a newer generation is on its way."""
        pool = slices[0].slice.spec.pool
        if len(slices) == pool.resource_slice_count:
            return self._build(node, key, slices, [])
        generations = [one.slice.spec.pool.generation for one in self._of_pool[key]]
        if max(generations) > pool.generation:
            return None
        if generations.count(pool.generation) != pool.resource_slice_count:
            return self._built.setdefault(key, DevicePool(*key, is_incomplete=True))
        names = {one.slice.name for one in slices}
        others = [
            one
            for one in self._of_pool[key]
            if one.slice.spec.pool.generation == pool.generation and one.slice.name not in names
        ]
        return self._build(node, key, slices, others)

    def _build(
        self, node: Node, pool: tuple[str, str], slices: list[PublishedSlice], others: list[PublishedSlice]
    ) -> DevicePool:
        counting = [one for one in slices if self._features.partitionable and one.slice.spec.shared_counters]
        usable = [one for one in slices if one not in counting or one.has_devices_for(node)]
        key = tuple(map(id, usable)), tuple(map(id, slices)), tuple(map(id, others))
        if key not in self._built:
            self._built[key] = self._join(pool, usable, slices, others)
        return self._built[key]

    def _join(
        self,
        key: tuple[str, str],
        usable: list[PublishedSlice],
        slices: list[PublishedSlice],
        others: list[PublishedSlice],
    ) -> DevicePool:
        """The pool of its slices for a node, of those of them with devices for it, and of other slices."""
        invalid = DevicePool(*key, is_invalid=True)
        counting = [one for one in slices if self._features.partitionable and one.slice.spec.shared_counters]
        devices = [device for one in usable for device in one.devices]
        if len({device.id for device in devices}) != len(devices):
            return invalid
        if not self._features.partitionable:
            return DevicePool(*key, devices)
        counters: dict[tuple[str, str], Quantity] = {}
        sets: set[str] = set()
        for one in counting:
            for counter_set in one.slice.spec.shared_counters:
                if counter_set.name in sets:
                    return invalid
                sets.add(counter_set.name)
                for name, counter in counter_set.counters.items():
                    counters[counter_set.name, name] = Quantity(counter.value)
        elsewhere = [device for one in others for device in one.devices]
        every = [device for one in slices for device in one.devices] + elsewhere
        if not all(_counters_exist(device, sets, counters) for device in every):
            return invalid
        return DevicePool(*key, devices, elsewhere, counters)


def _counters_exist(device: PublishedDevice, sets: set[str], counters: Counters) -> bool:
    consumed = device.device.consumes_counters
    return all(one.counter_set in sets for one in consumed) and device.counters.keys() <= counters.keys()


def _add_slice(found: dict[tuple[str, str], list[PublishedSlice]], one: PublishedSlice) -> None:
    """Add a slice to its pool, unless it is outdated; a newer one replaces all older ones."""
    spec = one.slice.spec
    slices = found.setdefault((spec.driver, spec.pool.name), [])
    generation = slices[0].slice.spec.pool.generation if slices else spec.pool.generation
    if spec.pool.generation > generation:
        slices.clear()
    if spec.pool.generation >= generation:
        slices.append(one)
