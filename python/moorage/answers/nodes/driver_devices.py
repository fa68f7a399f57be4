"""Devices that drivers list in ResourceSlices (Dynamic Resource Allocation): what of them claims hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from moorage._core.base.quantity import parse
from moorage.document import Amount, Count, Document
from moorage.kube import ResourceClaim, ResourceSlice
from moorage.kube.model.meta import QuantityLike
from moorage.kube.model.resource_claims import DeviceRequestAllocationResult
from moorage.kube.model.resource_slices import Device, ResourceSliceSpec
from moorage.store import ObjectClient

Key = tuple[str, str, str]
"""Driver, pool, and the name of a device or of a set of counters."""


class ListedDevice(Struct, frozen=True):
    """A device of a slice, and what it takes of each counter of its pool, in billionths."""

    key: Key
    node: str
    """Empty for one that several nodes can use."""
    device: Device
    takes: Mapping[tuple[Key, str], int]

    @property
    def wholes(self) -> set[Key]:
        """What it is a part of, which are the sets of counters; itself without counters."""
        return {counters for counters, _ in self.takes} or {self.key}


class WholeDevices(Struct):
    """The devices of a driver on a node; partitions that share counters are parts of one."""

    every: set[Key] = field(default_factory=set)
    taken: set[Key] = field(default_factory=set)
    """Those of which something is held."""
    held: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """How much of them a pod holds, by its key, which is empty for claims that no pod uses."""


class DriverRoom(Document, frozen=True):
    """Devices of a driver; those that share counters, such as the partitions of a GPU, are parts of one."""

    devices: Count
    held: Amount
    """A partition counts by the mean of the shares that it takes of all counters of its device."""
    free: Count
    """Those of which nothing is held."""


class DriverDevices:
    """The devices of the newest generation of each pool, and who holds them."""

    def __init__(self, client: ObjectClient) -> None:
        self.held = defaultdict[Key, list[tuple[ResourceClaim, DeviceRequestAllocationResult]]](list)
        claims: list[ResourceClaim] = client.list(ResourceClaim)[0]
        for claim in claims:
            if claim.status.allocation is not None:
                for result in claim.status.allocation.devices.results:
                    if not result.admin_access:
                        self.held[result.driver, result.pool, result.device].append((claim, result))
        specs: list[ResourceSliceSpec] = [each.spec for each in client.list(ResourceSlice)[0]]
        newest = Counter[tuple[str, str]]()
        for spec in specs:
            pool = spec.driver, spec.pool.name
            newest[pool] = max(newest[pool], spec.pool.generation)
        specs = [each for each in specs if each.pool.generation == newest[each.driver, each.pool.name]]
        self._counters = {
            ((spec.driver, spec.pool.name, counters.name), name): _nanos(counter.value)
            for spec in specs
            for counters in spec.shared_counters
            for name, counter in counters.counters.items()
        }
        self._sizes = Counter(counters for counters, _ in self._counters)
        self.listed = [_listed(spec, device) for spec in specs for device in spec.devices]
        self._left = Counter(self._counters)
        for each in self.listed:
            if each.key in self.held:
                self._left.subtract(each.takes)

    def takeable(self, devices: Iterable[ListedDevice]) -> list[ListedDevice]:
        """Return the devices that claims for one each get one after the other, in the order of slices."""
        left, taken = Counter[tuple[Key, str]](), list[ListedDevice]()
        for each in devices:
            if each.key not in self.held and all(
                amount <= self._left[name] - left[name] for name, amount in each.takes.items()
            ):
                left.update(each.takes)
                taken.append(each)
        return taken

    def of_nodes(self) -> dict[str, dict[str, WholeDevices]]:
        """Return the devices of each node by driver."""
        nodes = defaultdict[str, defaultdict[str, WholeDevices]](lambda: defaultdict(WholeDevices))
        for each in self.listed:
            devices = nodes[each.node][each.key[0]]
            devices.every |= each.wholes
            for claim, result in self.held.get(each.key, ()):
                devices.taken |= each.wholes
                users = [f"{claim.namespace}/{user.name}" for user in claim.status.reserved_for] or [""]
                for user in users:
                    devices.held[user] += self._part(each, result) / len(users)
        return {node: dict(drivers) for node, drivers in nodes.items() if node}

    def _part(self, listed: ListedDevice, result: DeviceRequestAllocationResult) -> float:
        """How much of a whole device a claim holds."""
        totals = {name: total for name in listed.takes if (total := self._counters.get(name))}
        parts = (listed.takes[name] / total / self._sizes[name[0]] for name, total in totals.items())
        part = sum(parts) if listed.takes else 1.0
        capacity = listed.device.capacity
        shares = [
            _nanos(amount) / whole
            for name, amount in result.consumed_capacity.items()
            if name in capacity and (whole := _nanos(capacity[name].value))
        ]
        return part * max(shares, default=1.0)


def room_of_drivers(nodes: Iterable[Mapping[str, WholeDevices]]) -> dict[str, DriverRoom]:
    """Return the devices of some nodes together, by driver."""
    rooms = dict[str, DriverRoom]()
    for drivers in nodes:
        for driver, devices in drivers.items():
            so_far = rooms.get(driver, DriverRoom(0, 0.0, 0))
            rooms[driver] = DriverRoom(
                so_far.devices + len(devices.every),
                so_far.held + sum(devices.held.values()),
                so_far.free + len(devices.every - devices.taken),
            )
    return rooms


def _listed(spec: ResourceSliceSpec, device: Device) -> ListedDevice:
    pool = spec.driver, spec.pool.name
    takes = {
        ((*pool, uses.counter_set), name): _nanos(counter.value)
        for uses in device.consumes_counters
        for name, counter in uses.counters.items()
    }
    return ListedDevice((*pool, device.name), device.node_name or spec.node_name or "", device, takes)


def _nanos(amount: QuantityLike) -> int:
    return parse(amount).nanos()
