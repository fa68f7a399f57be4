"""The core's search finds what a slow twin finds that tries device by device, with the same errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.devices.allocation.twin.backtracking import Twin
from tests.devices.allocation.twin.pools_of_nodes import PoolsOfNodes
from tests.devices.make import DRIVER, claim, device, device_class, named_node, resource_slice
from tests.devices.node_by_node import Allocator
from tests.doors.engine import AllocatedDevices, ClaimRequests, ClaimResult, Features

from moorage import Quantity
from moorage.engine.devices import DeviceSlices, SelectorCache
from moorage.errors import MoorageError
from moorage.kube import ResourceClaim, ResourceSlice
from moorage.kube.releases import RELEASES, Release

Json = dict[str, Any]
NODES = [named_node(name) for name in ("n", "m")]
KINDS = f'device.attributes["{DRIVER}"].kind'
SELECTORS = (f"{KINDS} > 0", f"{KINDS} < 2", f'device.attributes["{DRIVER}"].other == 1', "device.none")
CLASSES = {"gpu": device_class(), "some": device_class("some", SELECTORS[0])}
ON_M = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]}
PLACES: tuple[Json, ...] = (
    *({"nodeName": "n"}, {"nodeName": "m"}, {"nodeName": None, "allNodes": True}),
    *({"nodeName": None, "nodeSelector": ON_M}, {"nodeName": None, "perDeviceNodeSelection": True}),
)
few = st.integers(0, 2)
releases = st.sampled_from([RELEASES["1.36"], RELEASES["1.37"]])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def present(**fields: Any) -> Json:
    return {key: value for key, value in fields.items() if value not in (None, False, [])}


policies = st.sampled_from(
    [
        None,
        {"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}},
        {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
        {"validValues": ["1", "2"]},
        {"default": "2", "validValues": ["2", "4"]},
    ]
)
capacities = st.builds(
    lambda value, policy: {"memory": present(value=str(value), requestPolicy=policy)},
    st.integers(1, 4),
    policies,
)
counters = st.dictionaries(st.sampled_from(("a", "b")), few.map(lambda n: {"value": str(n)}), max_size=2)
consumption = st.builds(
    lambda name, of: [{"counterSet": name, "counters": of}], st.sampled_from("sssssst"), counters
)
taints = st.lists(
    st.builds(
        lambda key, effect: {"key": key, "effect": effect},
        st.sampled_from("kl"),
        st.sampled_from(("NoSchedule", "None")),
    ),
    max_size=1,
)
properties = st.builds(
    lambda kind, other, **more: ({"kind": kind} | present(other=other), present(**more)),
    st.integers(0, 2),
    st.none() | st.just(1),
    capacity=optional(capacities),
    taints=taints,
    allowMultipleAllocations=st.booleans(),
    consumesCounters=consumption,
    bindingConditions=optional(st.just(["ready"])),
)


@st.composite
def slices(draw: st.DrawFn) -> list[ResourceSlice]:
    """Slices of some pools; names of pools recur among drivers, and some pools are incomplete or invalid."""
    out = []
    for number in range(draw(st.integers(1, 4))):
        spec: Json = {"driver": draw(st.sampled_from((DRIVER, DRIVER, "other.example.com")))}
        if counts := draw(st.booleans()):
            spec["sharedCounters"] = [{"name": "s", "counters": {"a": {"value": "3"}, "b": {"value": "2"}}}]
        devices = []
        for at, (attributes, more) in enumerate(draw(st.lists(properties, min_size=1, max_size=4))):
            if not counts:
                more.pop("consumesCounters", None)
            devices.append(device(f"d{number}-{at}", attributes, **more))
        if rare(draw):
            devices.append(devices[0])
        pool, count = f"p{number % draw(st.integers(2, 4))}", 2 if rare(draw) else 1
        where = draw(st.sampled_from(PLACES))
        if where.get("perDeviceNodeSelection"):
            devices = [one | draw(st.sampled_from(PLACES[:4])) for one in devices]
        out.append(resource_slice("n", devices, pool, f"slice-{number}", count, **spec, **where))
    return out


def rare(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 9)) == 9


asked = st.builds(
    lambda **fields: present(**fields),
    deviceClassName=st.sampled_from(("gpu", "gpu", "some")),
    selectors=st.lists(
        st.sampled_from((*SELECTORS[:2], *SELECTORS)).map(lambda one: {"cel": {"expression": one}}),
        max_size=1,
    ),
    tolerations=st.lists(st.just({"key": "k", "operator": "Exists"}), max_size=1),
    capacity=st.sampled_from((None, None, None, "1", "2", "3", "800m", "1u", "-1", "9E")).map(
        lambda value: value and {"requests": {"memory": value}}
    ),
)
modes = st.sampled_from(
    (
        {"allocationMode": "ExactCount", "count": 1},
        {"allocationMode": "ExactCount", "count": 2},
        {"allocationMode": "All"},
    )
)
exact = st.builds(
    lambda one, mode, admin: one | mode | present(adminAccess=admin), asked, modes, st.booleans()
)
choices = st.lists(st.builds(lambda one, mode: one | mode, asked, modes), min_size=1, max_size=2)
constraint = st.builds(
    lambda kind, attribute, requests: {kind: f"{DRIVER}/{attribute}", "requests": requests},
    st.sampled_from(("matchAttribute", "distinctAttribute")),
    st.sampled_from(("kind", "other")),
    st.sampled_from(([], ["r0"], ["r1/x0"])),
)


@st.composite
def claims(draw: st.DrawFn) -> list[ResourceClaim]:
    out = []
    for number in range(draw(st.integers(1, 2))):
        requests = []
        for at, one in enumerate(draw(st.lists(exact | choices, min_size=1, max_size=2))):
            if isinstance(one, list):
                named = [{"name": f"x{place}"} | each for place, each in enumerate(one)]
                requests.append({"name": f"r{at}", "firstAvailable": named})
            else:
                requests.append({"name": f"r{at}", "exactly": one})
        out.append(claim(f"c{number}", requests, draw(st.lists(constraint, max_size=2))))
    return out


Outcome = list[Any] | str | None


def outcome(found: list[ClaimResult] | None) -> Outcome:
    if found is None:
        return None
    return [
        (
            [request.full_name for request in result.chosen],
            [one.name for one in result.classes],
            [
                (
                    one.request.full_name,
                    one.device.id,
                    {name: str(amount) for name, amount in (one.consumed or {}).items()},
                )
                for one in result.devices
            ],
        )
        for result in found
    ]


def answers(one: Allocator | Twin, wanted: Sequence[ResourceClaim]) -> list[Outcome]:
    """What is found on each node, up to the first error."""
    requests, out = [ClaimRequests.of(each) for each in wanted], list[Outcome]()
    for node in (*NODES, NODES[0]):
        try:
            out.append(outcome(one.allocate(node, requests)))
        except MoorageError as error:
            out.append(f"{type(error).__name__}: {error}")
    return out


@settings(max_examples=300)
@given(slices(), claims(), st.data(), st.sampled_from((0, 12)))
def test_the_core_finds_what_the_twin_finds(
    published: list[ResourceSlice], wanted: list[ResourceClaim], data: st.DataObject, most_steps: int
) -> None:
    off = data.draw(
        st.sampled_from(
            ("", "", "", "", "taints", "partitionable", "consumable_capacity", "binding_conditions")
        )
    )
    features = Features(release=data.draw(releases), **({off: False} if off else {}))
    features = replace(features, fractional_capacity=features.release.checks_amounts)
    ids = sorted({one.id for one in DeviceSlices(published, features).devices()})
    used = data.draw(st.sets(st.sampled_from(ids), max_size=3)) if ids else set()
    shares = data.draw(st.dictionaries(st.sampled_from(ids), few, max_size=2)) if ids else {}
    taken = {one: {"memory": Quantity(amount)} if amount else {} for one, amount in shares.items()}
    allocated = AllocatedDevices(used, taken)
    rest = features, allocated, CLASSES.get, SelectorCache(), most_steps
    core = Allocator(DeviceSlices(published, features), *rest)
    twin = Twin(PoolsOfNodes(published, features), *rest)
    assert answers(core, wanted) == answers(twin, wanted)


@st.composite
def pools(draw: st.DrawFn) -> list[ResourceSlice]:
    """Slices with and without counters of pools that nodes share, of two generations."""
    out = []
    for number in range(draw(st.integers(1, 6))):
        where: Json = dict(draw(st.sampled_from(PLACES)))
        devices = [device(f"d{draw(few)}") for _ in range(draw(few))]
        if draw(st.booleans()):
            where["sharedCounters"] = [
                {"name": draw(st.sampled_from("sst")), "counters": {"a": {"value": "3"}}}
            ]
        for one in devices if draw(st.booleans()) else ():
            one["consumesCounters"] = draw(consumption)
        if where.get("perDeviceNodeSelection"):
            devices = [one | draw(st.sampled_from(PLACES[:4])) for one in devices]
        name, count = draw(st.sampled_from("pppq")), draw(st.integers(1, 3))
        generation = draw(st.sampled_from((1, 1, 1, 2)))
        out.append(resource_slice("n", devices, name, f"slice-{number}", count, generation, **where))
    return out


def seen(slices: DeviceSlices | PoolsOfNodes, name: str) -> list[Any]:
    """What decides of the pools of a node: those with devices, the first that cannot be used, and whether one
    is invalid."""
    found, out, is_first = slices.pools_of(named_node(name)), list[Any](), True
    for pool in found:
        if pool.is_incomplete or pool.is_invalid:
            out += [(pool.driver, pool.name, pool.is_invalid)] if is_first else []
            is_first = False
        elif pool.devices:
            others = {one.id for one in pool.elsewhere if one.counters}
            out.append((pool.driver, pool.name, [one.id for one in pool.devices], others, pool.counters))
    return [*out, any(pool.is_invalid for pool in found)]


@settings(max_examples=300)
@given(pools(), st.booleans(), releases)
def test_nodes_see_the_pools_that_upstream_gathers(
    published: list[ResourceSlice], is_partitionable: bool, release: Release
) -> None:
    features = Features(partitionable=is_partitionable, release=release)
    core, twin = DeviceSlices(published, features), PoolsOfNodes(published, features)
    for name in ("n", "m", "other"):
        assert seen(core, name) == seen(twin, name)


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
