"""What makes pools of devices invalid: names that occur twice, counters that do not exist (k8s.io/
dynamic-resource-allocation, structured/internal/incubating, pools_incubating.go)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ..model.resource_slices import Device, ResourceSlice

MOST = 20
"""Maximum number of problems that are found in a cluster."""


class PoolProblem(Struct, frozen=True):
    """What makes a pool invalid: no device of it is allocated.

    Attributes
    ----------
    pool : (str, str)
        Driver and name of the pool.
    slice : str
        Name of the slice.
    path : str
        Field of the slice.
    message : str
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
    for one in slices:
        pools[one.spec.driver, one.spec.pool.name].append(one)
    found: list[PoolProblem] = []
    for key in sorted(pools):
        latest = max(one.spec.pool.generation for one in pools[key])
        current = [one for one in pools[key] if one.spec.pool.generation == latest]
        if len(current) != current[0].spec.pool.resource_slice_count or len(found) == MOST:
            continue
        current.sort(key=lambda one: one.name)
        found += [PoolProblem(key, *problem) for problem in list(_problems(current))[:1]]
    return found


def _problems(slices: Sequence[ResourceSlice]) -> Iterator[tuple[str, str, str]]:
    """Yield slice, field and message of the problems of one pool."""
    counters: dict[str, frozenset[str]] = {}
    for one in slices:
        for at, counter_set in enumerate(one.spec.shared_counters):
            if counter_set.name in counters:
                text = f'duplicate counter set "{counter_set.name}" in the pool'
                yield one.name, f"spec.sharedCounters[{at}].name", text
            counters[counter_set.name] = frozenset(counter_set.counters)
    devices: set[tuple[str, str]] = set()
    for one in slices:
        for at, device in enumerate(one.spec.devices):
            path = f"spec.devices[{at}]"
            key = one.spec.node_name or device.node_name or "", device.name
            if key in devices:
                yield one.name, f"{path}.name", f'duplicate device "{device.name}" in the pool'
            devices.add(key)
            yield from ((one.name, path + rest, text) for rest, text in _unknown_counters(device, counters))


def _unknown_counters(device: Device, counters: dict[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    for at, consumed in enumerate(device.consumes_counters):
        path, name = f".consumesCounters[{at}]", consumed.counter_set
        if name not in counters:
            yield f"{path}.counterSet", f'no counter set "{name}" in the pool'
            continue
        for counter in consumed.counters:
            if counter not in counters[name]:
                yield f"{path}.counters[{counter}]", f'no counter "{counter}" in counter set "{name}"'
