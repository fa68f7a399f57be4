"""Resource slices, which publish the devices of drivers, and device taint rules (resource.k8s.io)."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import field

from .meta import (
    Int64,
    Object,
    QuantityLike,
    Struct,
    Time,
)
from .pod import NodeSelector
from .resource_claims import API_VERSION

_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE_RELEASE = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PRE_RELEASE}(?:\.{_PRE_RELEASE})*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)
"""A version of semver.org 2.0.0: major, minor, patch, pre-release, build."""


class DeviceAttribute(Struct, frozen=True):
    """The value of an attribute; exactly one field is set."""

    int_: Int64 | None = field(default=None, name="int")
    bool_: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRequestPolicyRange(Struct, frozen=True):
    """The amounts ``min``, ``min + step``, … up to ``max``."""

    min: QuantityLike | None = None
    max: QuantityLike | None = None
    step: QuantityLike | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    """How much of a capacity one share of a device may take."""

    default: QuantityLike | None = None
    valid_values: tuple[QuantityLike, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct, frozen=True):
    """A capacity of a device."""

    value: QuantityLike = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    """An amount of a counter."""

    value: QuantityLike = "0"


class CounterSet(Struct, frozen=True):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Struct, frozen=True):
    """What a device takes of the counters of a set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Struct, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeAllocatableResourceMapping(Struct, frozen=True):
    """How much a device takes of a resource of the node: an amount, or a multiple of a capacity of it."""

    capacity_key: str | None = None
    allocation_multiplier: QuantityLike | None = None


class Device(Struct, frozen=True):
    """A device.

    Attributes
    ----------
    binding_conditions : tuple of str or None
        None and an empty list differ: pools with a list come last.
    """

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = {}


class ResourcePool(Struct, frozen=True):
    """The pool of a slice; of its slices only those of the highest generation count."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Struct, frozen=True):
    """Devices of a driver, and the nodes from which they can be used."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Object, frozen=True):
    """A part of the devices of a pool."""

    kind: str = "ResourceSlice"
    api_version: str = API_VERSION
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """Selects devices by names; all that are given must agree."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """A taint for all selected devices."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A rule that taints devices."""

    kind: str = "DeviceTaintRule"
    api_version: str = "resource.k8s.io/v1beta2"
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


KINDS = (ResourceSlice, DeviceTaintRule)
"""The kinds of this module that files are decoded to."""


# ---- pool problems -----------------------------------------------------------------------------------------
#
# What makes pools of devices invalid: names that occur twice, counters that do not exist (k8s.io/
# dynamic-resource-allocation, structured/internal/incubating, pools_incubating.go).

MOST = 20
"""Maximum number of problems that are found in a cluster."""


class PoolProblem(msgspec.Struct, frozen=True):
    """What makes a pool invalid: no device of it is allocated.

    Attributes
    ----------
    pool : (str, str)
        Driver and name of the pool.
    """

    pool: tuple[str, str]
    slice: str
    path: str
    message: str

    @property
    def text(self) -> str:
        """Object, field and problem in one line."""
        return f"ResourceSlice {self.slice}: {self.path}: {self.message}"


def find_pool_problems(slices: Iterable[ResourceSlice]) -> list[PoolProblem]:
    """Find what makes pools invalid: the first problem of each pool.

    Pools that have not all of their slices are not looked at.

    Returns
    -------
    list of PoolProblem
        At most `MOST`.
    """
    pools: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for resource_slice in slices:
        pools[resource_slice.spec.driver, resource_slice.spec.pool.name].append(resource_slice)
    problems: list[PoolProblem] = []
    for key in sorted(pools):
        latest = max(resource_slice.spec.pool.generation for resource_slice in pools[key])
        current = [
            resource_slice for resource_slice in pools[key] if resource_slice.spec.pool.generation == latest
        ]
        if len(current) != current[0].spec.pool.resource_slice_count or len(problems) == MOST:
            continue
        current.sort(key=lambda resource_slice: resource_slice.name)
        problems += [PoolProblem(key, *problem) for problem in list(_problems(current))[:1]]
    return problems


def _problems(slices: Sequence[ResourceSlice]) -> Iterator[tuple[str, str, str]]:
    """Yield slice, field and message of the problems of one pool."""
    counters: dict[str, frozenset[str]] = {}
    for resource_slice in slices:
        for at, counter_set in enumerate(resource_slice.spec.shared_counters):
            if counter_set.name in counters:
                text = f'duplicate counter set "{counter_set.name}" in the pool'
                yield resource_slice.name, f"spec.sharedCounters[{at}].name", text
            counters[counter_set.name] = frozenset(counter_set.counters)
    devices: set[tuple[str, str]] = set()
    for resource_slice in slices:
        for at, device in enumerate(resource_slice.spec.devices):
            path = f"spec.devices[{at}]"
            key = resource_slice.spec.node_name or device.node_name or "", device.name
            if key in devices:
                yield resource_slice.name, f"{path}.name", f'duplicate device "{device.name}" in the pool'
            devices.add(key)
            yield from (
                (resource_slice.name, path + rest, text) for rest, text in _unknown_counters(device, counters)
            )


def _unknown_counters(device: Device, counters: dict[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    for at, consumed in enumerate(device.consumes_counters):
        path, name = f".consumesCounters[{at}]", consumed.counter_set
        if name not in counters:
            yield f"{path}.counterSet", f'no counter set "{name}" in the pool'
            continue
        for counter in consumed.counters:
            if counter not in counters[name]:
                yield f"{path}.counters[{counter}]", f'no counter "{counter}" in counter set "{name}"'
