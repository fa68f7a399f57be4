"""Pools of devices: what slices of a cluster offer to a node
(k8s.io/dynamic-resource-allocation, structured/internal/incubating)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage._core.devices.device_view import DeviceView
from moorage.kube import Node, NodeSelector
from moorage.kube.model.resource_slices import Device, ResourceSlice, ResourceSliceSpec
from moorage.lazy import lazy_attribute

from ..framework.node_masks import matcher_of
from .claim_requests import AllocationError, Features, SelectorError

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
Counters = Mapping[tuple[str, str], Quantity]
"""Amount by counter set and counter."""
NO_COUNTERS: Counters = {}

_encode = msgspec.msgpack.Encoder().encode
_NAME, _RANK, _LISTED = attrgetter("slice.metadata.name"), attrgetter("rank"), attrgetter("listed")


@dataclass(eq=False)
class PublishedDevice:
    """A device in its slice.

    Attributes
    ----------
    properties : bytes
        Equal for devices for which expressions have equal results.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice
    properties: bytes

    @property
    def counters(self) -> Counters:
        """What the device takes of shared counters."""
        return self._counters if self.device.consumes_counters else NO_COUNTERS

    @lazy_attribute
    def _counters(self) -> Counters:
        return {
            (consumption.counter_set, name): Quantity(counter.value)
            for consumption in self.device.consumes_counters
            for name, counter in consumption.counters.items()
        }

    @lazy_attribute
    def capacity(self) -> dict[str, Quantity]:
        """The capacities of the device."""
        return {name: Quantity(capacity.value) for name, capacity in self.device.capacity.items()}

    def attribute_value(self, name: str, is_typed: bool = False) -> tuple[str, object] | tuple[()] | None:
        """Return type and value of an attribute, by which constraints compare it.

        Parameters
        ----------
        name : str
            Its full name; an attribute whose domain is the driver may be published by its name alone.
        is_typed : bool, default False
            Build metadata of versions does not count (`Release.attributes_are_typed`).

        Returns
        -------
        (str, object) or tuple or None
            The empty tuple for a list, which equals nothing; None without the attribute.

        Raises
        ------
        AllocationError
            `is_typed`, and the attribute cannot be read.
        """
        attributes = self.device.attributes
        domain, slash, identifier = name.partition("/")
        attribute = attributes.get(name)
        if attribute is None and slash and domain == self.id[0]:
            attribute = attributes.get(identifier)
        if attribute is None:
            return None
        kinds = (
            ("string", attribute.string),
            ("int", attribute.int_),
            ("bool", attribute.bool_),
            ("version", attribute.version),
        )
        kind = next((kind for kind in kinds if kind[1] is not None), ())
        if not is_typed:
            return kind
        from .device_selector import read_attribute

        try:
            read_attribute(name, attribute)
        except SelectorError as error:
            raise AllocationError(str(error)) from None
        version = attribute.version
        is_version = kind == ("version", version)
        return ("version", version.partition("+")[0]) if version is not None and is_version else kind

    def is_for(self, node: Node) -> bool:
        """Whether the device can be used from a node, as far as the device itself says."""
        if not self.slice.spec.per_device_node_selection:
            return True
        if self.device.node_name:
            return node.name == self.device.node_name
        selector = self.device.node_selector
        return bool(self.device.all_nodes) or (selector is not None and matcher_of(selector).matches(node))


def properties_of(driver: str, device: Device) -> bytes:
    """Return what is equal for devices for which expressions have equal results."""
    return _encode((driver, device.allow_multiple_allocations, device.attributes, device.capacity))


class SliceKind:
    """What slices of one driver with equal devices have in common.

    Attributes
    ----------
    repeats : bool
        Whether two of the devices have one name.
    consumes : bool
        Whether a device takes of shared counters.
    waits : bool
        Whether a device has binding conditions.
    is_last : bool
        See `DevicePool.is_last`.
    """

    def __init__(self, driver: str, devices: tuple[Device, ...]) -> None:
        self.driver, self.devices = driver, devices
        self.repeats = len({device.name for device in devices}) < len(devices)
        self.consumes = any(device.consumes_counters for device in devices)
        self.waits = any(device.binding_conditions for device in devices)
        self.is_last = any(device.binding_conditions is not None for device in devices)

    @lazy_attribute
    def properties(self) -> list[bytes]:
        """See `PublishedDevice`."""
        return [properties_of(self.driver, device) for device in self.devices]


class SliceKinds:
    """The kinds of slices that live as long as the object."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, int], SliceKind] = {}  # most slices of a driver are equal
        self._equal: dict[bytes, SliceKind] = {}

    def of(self, spec: ResourceSliceSpec) -> SliceKind:
        """Return the kind of a slice."""
        same = spec.driver, id(spec.devices)
        kind = self._same.get(same)
        if kind is None:
            equal = _encode((spec.driver, spec.devices))
            kind = self._equal.get(equal)
            if kind is None:
                kind = self._equal[equal] = SliceKind(spec.driver, spec.devices)
            self._same[same] = kind
        return kind


class PublishedSlice:
    """A slice with its devices.

    Attributes
    ----------
    pool : (str, str)
        Driver and name of the pool.
    generation : int
        The generation of the pool that the slice is of.
    rank, listed : int
        Slices of lower rank are tried first; the place in the list that the informer has.
    """

    rank = listed = 0

    def __init__(self, slice: ResourceSlice, kinds: SliceKinds) -> None:
        spec = slice.spec
        self.slice, self.kind = slice, kinds.of(spec)
        self.pool, self.generation = (spec.driver, spec.pool.name), spec.pool.generation

    @lazy_attribute
    def devices(self) -> list[PublishedDevice]:
        return list(map(self.device, range(len(self.kind.devices))))

    @lazy_attribute
    def _made(self) -> dict[int, PublishedDevice]:
        return {}

    def device(self, at: int) -> PublishedDevice:
        """Return one of the devices.

        Parameters
        ----------
        at : int
            Its place in the slice.

        Returns
        -------
        PublishedDevice
            The same object at each call.
        """
        published = self._made.get(at)
        if published is None:
            kind, spec = self.kind, self.slice.spec
            device = kind.devices[at]
            published = PublishedDevice(
                (spec.driver, spec.pool.name, device.name), device, self.slice, kind.properties[at]
            )
            self._made[at] = published
        return published

    @lazy_attribute
    def alone(self) -> list[DevicePool]:
        """The pool of a node that has this slice alone, where nothing consumes counters."""
        (driver, name), is_invalid = self.pool, self.kind.repeats
        return [DevicePool(driver, name, () if is_invalid else (self,), is_invalid=is_invalid)]

    @property
    def places(self) -> Sequence[ResourceSliceSpec | Device]:
        """What says from which nodes devices of a slice can be used that names none itself."""
        spec = self.slice.spec
        if spec.all_nodes or spec.node_selector is not None:
            return (spec,)
        return spec.devices if spec.per_device_node_selection else ()


@dataclass(eq=False)
class DevicePool:
    """A pool as one node sees it.

    Attributes
    ----------
    slices : list of PublishedSlice
        Those for the node, in order; empty if the pool is incomplete or invalid.
    others : list of PublishedSlice
        Other slices with devices that take counters of the pool.
    counters : Counters
        The shared counters of the pool.
    is_invalid : bool
        Whether the slices contradict one another.
    """

    driver: str
    name: str
    slices: Sequence[PublishedSlice] = ()
    others: Sequence[PublishedSlice] = ()
    counters: Counters = field(default_factory=dict)
    is_incomplete: bool = False
    is_invalid: bool = False

    @lazy_attribute
    def devices(self) -> list[PublishedDevice]:
        """The devices of the slices for the node."""
        return [device for slice_ in self.slices for device in slice_.devices]

    @lazy_attribute
    def elsewhere(self) -> list[PublishedDevice]:
        """The devices of the other slices."""
        return [device for other in self.others for device in other.devices]

    def device(self, at: int) -> PublishedDevice:
        """Return one of `devices`; others need not be made for it."""
        for slice_ in self.slices:
            if at < len(slice_.kind.devices):
                return slice_.device(at)
            at -= len(slice_.kind.devices)
        raise IndexError("there are fewer devices")

    @lazy_attribute
    def selects_nodes(self) -> bool:
        """Whether devices choose their nodes each."""
        return bool([slice_ for slice_ in self.slices if slice_.slice.spec.per_device_node_selection])

    @lazy_attribute
    def is_of_node(self) -> bool:
        """Whether all slices with devices for the node are of the node alone."""
        specs = [slice_.slice.spec for slice_ in self.slices]
        return all(spec.node_name is not None and not spec.per_device_node_selection for spec in specs)

    @lazy_attribute
    def is_last(self) -> bool:
        """Whether a device has binding conditions: such pools come after all others."""
        return bool([slice_ for slice_ in self.slices if slice_.kind.is_last])

    @lazy_attribute
    def has_counters(self) -> bool:
        """Whether shared counters may decide about a device."""
        return bool(
            self.counters or self.others or [slice_ for slice_ in self.slices if slice_.kind.consumes]
        )


class _SlicesOfPool(Struct, eq=False):
    """All slices of a pool: their number by generation, and those whose devices take of shared counters."""

    generations: dict[int, int] = msgspec.field(default_factory=dict)
    consuming: list[PublishedSlice] = msgspec.field(default_factory=list)


class DeviceSlices:
    """The slices of a cluster, and the pools of each node.

    Attributes
    ----------
    have_counters : bool
        Whether a slice has shared counters, or a device takes of them.
    have_conditions : bool
        Whether a device has binding conditions.
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self._features = features
        kinds = SliceKinds()
        self._published = [PublishedSlice(slice_, kinds) for slice_ in slices]
        for at, published in enumerate(self._published):
            published.listed = at
        if features.sorts_slices:
            self._published.sort(key=_NAME)
        for at, published in enumerate(self._published):
            published.rank = at
        self._named: dict[str, list[int]] = {}
        self._selected: dict[NodeSelector, list[int]] = {}
        self._everywhere: list[int] = []
        self._pools: dict[str, tuple[Node, list[DevicePool]]] = {}
        self._alike: dict[Hashable, list[DevicePool]] = {}
        self._built: dict[Hashable, DevicePool | None] = {}
        self._columns: dict[Hashable, DeviceView] = {}
        specs, known = (
            [slice_.slice.spec for slice_ in self._published],
            {slice_.kind for slice_ in self._published},
        )
        # Whether a slice has devices that select nodes each.
        self._select_nodes = bool([spec for spec in specs if spec.per_device_node_selection])
        self.have_conditions = bool([device for device in known if device.waits])
        consumes = bool([device for device in known if device.consumes])
        self.have_counters = consumes or bool([spec for spec in specs if spec.shared_counters])
        for at, spec in enumerate(specs):
            if spec.node_name:  # as most slices have
                self._named.setdefault(spec.node_name, []).append(at)
                continue
            for place in self._published[at].places:
                if place.node_name:
                    self._named.setdefault(place.node_name, []).append(at)
                elif place.all_nodes:
                    self._everywhere.append(at)
                elif place.node_selector is not None:
                    self._selected.setdefault(place.node_selector, []).append(at)
        needs_partitions = self.have_counters or bool(list(filter(_needs_partitions, specs)))
        # Whether slices with the name of a node are all that it can use, each by itself.
        self._are_plain = not (self._everywhere or self._selected or needs_partitions)

    @lazy_attribute
    def _of_pool(self) -> dict[tuple[str, str], _SlicesOfPool]:
        """The slices of each pool."""
        out: dict[tuple[str, str], _SlicesOfPool] = {}
        for slice_ in self._published:
            of_pool = out.get(slice_.pool)
            if of_pool is None:
                of_pool = out[slice_.pool] = _SlicesOfPool()
            of_pool.generations[slice_.generation] = of_pool.generations.get(slice_.generation, 0) + 1
            if slice_.kind.consumes:
                of_pool.consuming.append(slice_)
        return out

    @lazy_attribute
    def _counting(self) -> dict[tuple[str, str], list[PublishedSlice]]:
        """The slices of each pool that have shared counters."""
        out: dict[tuple[str, str], list[PublishedSlice]] = {}
        for slice_ in self._published if self._features.partitionable and self.have_counters else ():
            if slice_.slice.spec.shared_counters:
                out.setdefault(slice_.pool, []).append(slice_)
        return out

    def offered(self, node: Node) -> list[PublishedSlice]:
        """Return the slices with devices that can be used from a node, those with its name alone first."""
        named = self._named.get(node.metadata.name, ())
        if len(named) == 1 and not (self._everywhere or self._selected):  # as in most clusters
            return [self._published[named[0]]]
        places_of_node = {*self._everywhere, *named}
        for selector, places in self._selected.items():
            if matcher_of(selector).matches(node):
                places_of_node.update(places)
        return [self._published[at] for at in sorted(places_of_node)]

    def pools_of(self, node: Node) -> list[DevicePool]:
        """Return the pools of a node, in the order in which their devices are tried.

        Returns
        -------
        list of DevicePool
            Those with devices for the node. Of the others, which have nothing but shared counters, the first
            that is incomplete or invalid, and the first that is invalid: no answer depends on more of them.
        """
        if (own := self.own_slice(node)) is not None:
            return own.alone
        known = self._pools.get(node.metadata.name)
        if known is None or known[0] is not node:
            offered = self.offered(node)
            alike = tuple(map(id, offered))
            if alike not in self._alike:
                self._alike[alike] = self._gather(offered)
            known = self._pools[node.metadata.name] = node, self._alike[alike]
        return known[1]

    def own_slice(self, node: Node) -> PublishedSlice | None:
        """Return the slice of a node that can use this one alone, which is a pool for itself; else None."""
        named = self._named.get(node.metadata.name, ()) if self._are_plain else ()
        if len(named) != 1:
            return None
        slice_ = self._published[named[0]]
        return slice_ if slice_.slice.spec.pool.resource_slice_count == 1 else None

    def view_key(self, node: Node, pools: Sequence[DevicePool]) -> Hashable:
        """Return what nodes with equal views have in common.

        Parameters
        ----------
        pools : sequence of DevicePool
            Its pools (`pools_of`).
        """
        return (*map(id, pools), *self._chosen(pools, node))

    def _chosen(self, pools: Iterable[DevicePool], node: Node) -> tuple[bool, ...]:
        """Which of the devices that choose their nodes choose a node."""
        if not self._select_nodes:
            return ()
        choosing = [pool for pool in pools if pool.selects_nodes]
        return (
            tuple([device.is_for(node) for pool in choosing for device in pool.devices]) if choosing else ()
        )

    def new_view(self, node: Node, pools: Sequence[DevicePool], is_order_free: bool) -> DeviceView:
        """Return another view of a node. Views share columns whose devices differ in names of pools alone.

        Parameters
        ----------
        pools : sequence of DevicePool
            Its pools (`pools_of`).
        is_order_free : bool
            See `DeviceView`.
        """
        if self._are_plain and len(pools) == 1 and len(pools[0].slices) == 1:
            key: Hashable = id(pools[0].slices[0].kind)
        else:
            kinds: list[Hashable] = []
            for pool in pools:
                if self.have_counters and pool.has_counters:  # these may depend on names
                    return DeviceView(pools, node, self._features, is_order_free)
                kinds += [id(slice_.kind) for slice_ in pool.slices]
                kinds.append(None)
            key = tuple(kinds), self._chosen(pools, node), len({pool.name for pool in pools})
        like = self._columns.get(key)
        if like is not None:
            return DeviceView(pools, node, self._features, is_order_free, like)
        like = self._columns[key] = DeviceView(pools, node, self._features, is_order_free)
        return like

    def devices(self) -> Iterable[PublishedDevice]:
        """Return all devices."""
        return (device for slice_ in self._published for device in slice_.devices)

    def _gather(self, offered: Iterable[PublishedSlice]) -> list[DevicePool]:
        """The pools of nodes that can use devices of the same slices."""
        by_pool: dict[tuple[str, str], list[PublishedSlice]] = {}
        has_partitions = self._features.partitionable
        for slice_ in offered:
            if has_partitions or not _needs_partitions(slice_.slice.spec):
                by_pool.setdefault(slice_.pool, []).append(slice_)
        pools: list[DevicePool] = []
        for key, usable in by_pool.items():
            pool = self._pool(key, usable)
            if pool is not None:
                pools.append(pool)
        for unusable in self._unusable:
            first = (
                next((unusable_pool for key, unusable_pool in unusable if key not in by_pool), None)
                if unusable
                else None
            )
            if first is not None and first not in pools:
                pools.append(first)
        if len(pools) > 1 and self._features.sorts_slices:
            pools.sort(key=lambda pool: (pool.is_last, pool.driver, pool.name))
        elif len(pools) > 1 and not self._features.is_stable:
            pools.sort(key=lambda pool: pool.is_last)
        return pools

    @lazy_attribute
    def _unusable(self) -> tuple[list[tuple[tuple[str, str], DevicePool]], ...]:
        """Pools that are incomplete or invalid for nodes that can use none of their devices, in order; and
        those of them that are invalid."""
        if not self._features.counters_are_everywhere:
            return [], []
        bare = [(key, self._pool(key, [])) for key in sorted(self._counting)]
        pools = [(key, pool) for key, pool in bare if pool and (pool.is_incomplete or pool.is_invalid)]
        return pools, [(key, pool) for key, pool in pools if pool.is_invalid]

    def _pool(self, key: tuple[str, str], usable: list[PublishedSlice]) -> DevicePool | None:
        """The pool of a node, by the slices with devices for it; None if a newer generation is on its way."""
        built = key, *map(id, usable)
        try:
            return self._built[built]
        except KeyError:
            pool = self._built[built] = self._build(key, usable)
            return pool

    def _build(self, key: tuple[str, str], usable: list[PublishedSlice]) -> DevicePool | None:
        counting = self._counting.get(key, ())
        relevant = usable
        if counting and self._features.counters_are_everywhere:
            relevant = _in_order({*usable, *counting})
        generations = {slice_.generation for slice_ in relevant}
        generation = max(generations)
        slices = relevant
        if len(generations) > 1:
            slices = [slice_ for slice_ in relevant if slice_.generation == generation]
            usable = [device for device in usable if device.generation == generation]
        # If slices of an invalid driver disagree, the first that is listed counts.
        first = min(slices, key=_LISTED) if len(slices) > 1 else slices[0]
        count, of_pool = first.slice.spec.pool.resource_slice_count, self._of_pool[key]
        if len(slices) == count:
            return self._join(key, usable, slices, [])
        if max(of_pool.generations) > generation:
            return None
        if of_pool.generations[generation] != count:
            return DevicePool(*key, is_incomplete=True)
        here = {*slices, *[part for part in counting if part.generation == generation]}
        others = [part for part in of_pool.consuming if part.generation == generation and part not in here]
        return self._join(key, usable, _in_order(here), others)

    def _join(
        self,
        key: tuple[str, str],
        usable: list[PublishedSlice],
        slices: list[PublishedSlice],
        others: list[PublishedSlice],
    ) -> DevicePool:
        """The pool of its slices for a node, of those of them with devices for it, and of other slices."""
        several = usable if len(usable) > 1 else ()
        names = [device.name for slice_ in several for device in slice_.kind.devices]
        if len(set(names)) < len(names) or any(slice_.kind.repeats for slice_ in usable):
            return DevicePool(*key, is_invalid=True)
        if not (self._features.partitionable and (key in self._counting or self._of_pool[key].consuming)):
            return DevicePool(*key, usable)
        invalid = DevicePool(*key, is_invalid=True)
        counters: dict[tuple[str, str], Quantity] = {}
        sets: set[str] = set()
        for slice_ in slices:
            for counter_set in slice_.slice.spec.shared_counters:
                if counter_set.name in sets:
                    return invalid
                sets.add(counter_set.name)
                for name, counter in counter_set.counters.items():
                    counters[counter_set.name, name] = Quantity(counter.value)
        every = [device for slice_ in (*slices, *others) for device in slice_.devices]
        for device in every:
            consumed = device.device.consumes_counters
            if consumed and not (
                all(consumption.counter_set in sets for consumption in consumed)
                and device.counters.keys() <= counters.keys()
            ):
                return invalid
        return DevicePool(*key, usable, others, counters)


def _needs_partitions(spec: ResourceSliceSpec) -> bool:
    return spec.per_device_node_selection is not None or bool(spec.shared_counters)


def _in_order(slices: Iterable[PublishedSlice]) -> list[PublishedSlice]:
    """Slices in the order in which their devices are tried."""
    return sorted(slices, key=_RANK)
