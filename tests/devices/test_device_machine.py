"""Slices, classes, claims and pods come and go, in transactions and forks as well: what is derived of devices
equals a recomputation, no device is allocated twice, and what was undone changes no later decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace
from tests.devices.make import DRIVER, claim, device, device_class, request, resource_slice
from tests.devices.node_by_node import Allocator
from tests.doors.engine import AllocatedDevices, ClaimRequests, ClaimResult, claim_results
from tests.scheduler.placing.test_device_demands import Json, make, node, outcome, pod, template

import moorage as mo
from moorage import Scheduler
from moorage.engine.devices import DeviceSlices, DeviceState, SelectorCache
from moorage.kube import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    Node,
    Object,
    Pod,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from moorage.store import ApiError

Step = Callable[[Scheduler], object]
KIND = f'device.attributes["{DRIVER}"].kind'
NODES = ("n0", "n1", "n2")
COUNTERS = [{"name": "s", "counters": {"a": {"value": "4"}}}]
EVERYWHERE: Json = {"nodeName": None, "allNodes": True}
pick = st.integers(0, 9)


# ---- steps -------------------------------------------------------------------------------------------------


def put(made: Object) -> Step:
    """Create an object, or replace that of its name."""

    def step(one: Scheduler) -> None:
        known = {each.key: each for each in one.client.list(type(made))[0]}
        if made.key in known:
            meta = replace(made.metadata, uid=known[made.key].metadata.uid)
            one.client.update(replace(made, metadata=meta))  # type: ignore[call-arg]
        else:
            one.client.create(made)

    return step


def drop(kind: type[Object], number: int) -> Step:
    def step(one: Scheduler) -> None:
        if there := one.client.list(kind)[0]:
            found = there[number % len(there)]
            one.client.delete(kind, found.name, found.metadata.namespace)

    return step


def claims_of(one: Scheduler) -> list[ResourceClaim]:
    found: list[ResourceClaim] = one.client.list(ResourceClaim)[0]
    return found


def held(one: Scheduler) -> Iterator[Any]:
    """The devices of all claims in the store, those that are only looked at apart."""
    for each in claims_of(one):
        allocation = each.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            if not result.admin_access:
                yield result.driver, result.pool, result.device


def free(number: int) -> Step:
    """A driver or a user takes the devices of a claim."""

    def step(one: Scheduler) -> None:
        if there := [each for each in claims_of(one) if each.status.allocation is not None]:
            found = there[number % len(there)]
            one.client.update(replace(found, status=ResourceClaimStatus()))

    return step


def give(number: int) -> Step:
    """Another scheduler allocates a free device to a claim."""

    def step(one: Scheduler) -> None:
        state = DeviceSlices(one.client.list(ResourceSlice)[0], devices_of(one).features)
        ids = [each.id for each in state.devices() if each.id not in set(held(one))]
        if ids and (there := [each for each in claims_of(one) if each.status.allocation is None]):
            driver, pool, name = ids[number % len(ids)]
            result = DeviceRequestAllocationResult(request="r", driver=driver, pool=pool, device=name)
            found = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
            chosen = there[number % len(there)]
            one.client.update(replace(chosen, status=replace(chosen.status, allocation=found)))

    return step


def pending(one: Scheduler) -> list[Pod]:
    return [each for each in one.client.list(Pod)[0] if not each.spec.node_name]


def try_one(number: int) -> Step:
    def step(one: Scheduler) -> None:
        if there := pending(one):
            one.can_schedule_pod(there[number % len(there)])

    return step


def explain(number: int) -> Step:
    def step(one: Scheduler) -> None:
        if there := pending(one):
            one.ask.explain(there[number % len(there)].key)

    return step


kinds = st.integers(0, 2)
drivers_devices = st.lists(kinds, min_size=1, max_size=4).map(
    lambda found: [device(f"d{at}", {"kind": kind}) for at, kind in enumerate(found)]
)
generations = st.sampled_from((1, 1, 2))
own_slices = st.builds(
    lambda name, devices, generation, count: resource_slice(
        name, devices, name=f"own-{name}", generation=generation, count=count
    ),
    st.sampled_from(NODES),
    drivers_devices,
    generations,
    st.sampled_from((1, 1, 1, 2)),
)
partitions = st.builds(
    lambda amounts, where: resource_slice(
        "n1",
        [
            device(
                f"p{at}", {"kind": 1}, consumesCounters=[{"counterSet": "s", "counters": {"a": {"value": n}}}]
            )
            for at, n in enumerate(amounts)
        ],
        "shared",
        "partitions",
        2,
        **where,
    ),
    st.lists(st.sampled_from("123"), max_size=3),
    st.sampled_from((EVERYWHERE, {"nodeName": "n1"})),
)
counter_sets = st.sampled_from(
    (
        resource_slice("n1", [], "shared", "counters", 2, sharedCounters=COUNTERS),
        resource_slice("n1", [], "shared", "counters", 2, generation=2, sharedCounters=COUNTERS),
        resource_slice("n1", [], "shared", "counters", 2, sharedCounters=COUNTERS * 2),
    )
)
classes = st.builds(
    device_class, st.sampled_from(("gpu", "gpu", "some")), st.sampled_from(("true", f"{KIND} > 0"))
)
requests = st.builds(
    lambda count, selector, name, more: request(
        "r", 0 if "allocationMode" in more else count, *selector, deviceClassName=name, **more
    ),
    st.integers(1, 2),
    st.sampled_from(((), (), (f"{KIND} == 1",), ("device.none",))),
    st.sampled_from(("gpu", "gpu", "some")),
    st.sampled_from(({}, {}, {}, {"allocationMode": "All"}, {"adminAccess": True})),
)
claims = st.builds(
    lambda name, asked, constraints: claim(name, [asked], constraints),
    st.sampled_from(("c0", "c1", "c2")),
    requests,
    st.sampled_from(([], [], [{"matchAttribute": f"{DRIVER}/kind"}])),
)
uses = st.sampled_from(((), (), (), ("c0",), ("c1",), ("c0", "c1"), ("c2",)))
pods = st.builds(
    lambda number, used, own: pod(f"p{number}", *used, template=own),
    st.integers(0, 5),
    uses,
    st.sampled_from(("", "a", "a", "b")),
)
steps: st.SearchStrategy[Step] = st.one_of(
    st.one_of(own_slices, partitions, counter_sets, classes, claims, pods, pods).map(put),
    st.builds(drop, st.sampled_from((ResourceSlice, DeviceClass, ResourceClaim, Pod, Pod, Node)), pick),
    st.builds(lambda name: put(node(name)), st.sampled_from(NODES)),
    st.one_of(pick.map(free), pick.map(give), pick.map(try_one), pick.map(explain)),
    *[st.just(lambda one: one.run())] * 2,
    st.just(lambda one: one.schedule_pods(pending(one))),
)


def take(one: Scheduler, step: Step) -> None:
    """Take a step that the store, or the scheduler, may refuse."""
    with suppress(ApiError, mo.MoorageError):
        step(one)
    one.sync()


# ---- what is derived ---------------------------------------------------------------------------------------


def devices_of(one: Scheduler) -> DeviceState:
    return one.handle.shared(DeviceState.of)


def names(found: Sequence[ClaimResult]) -> list[Any]:
    return [[(one.request.full_name, one.device.id) for one in each.devices] for each in found]


def check_claims(one: Scheduler) -> None:
    cache, there = devices_of(one).claim_cache, claims_of(one)
    assert {each.key: each for each in cache.claims()} == {each.key: each for each in there}
    assert not any(cache.is_pending(each.metadata.uid) for each in there)
    assert cache.in_use().devices == set(held(one))
    twice = [name for name, count in Counter(held(one)).items() if count > 1]
    assert not twice


def check_answers(one: Scheduler) -> None:
    """What the columns of devices answer for each claim is what a new search finds."""
    state, framework = devices_of(one), one.context.rotation.engines[0].framework
    one.cache.state.view.refresh()
    if not state.demands.refresh(one.cache.state, framework.all_nodes()):
        return
    slices = DeviceSlices(one.client.list(ResourceSlice)[0], state.features)
    by_name = {each.name: each for each in one.client.list(DeviceClass)[0]}
    in_use, selectors = AllocatedDevices(set(held(one))), SelectorCache()
    for wanted in claims_of(one):
        if (asked := state.demands.asking(wanted)) is None:
            continue
        demand = state.demands.demand_of([asked], 0)
        assert demand is not None
        for each in one.client.list(Node)[0]:
            search = Allocator(slices, state.features, in_use, by_name.get, selectors)
            row = one.cache.state.table.find_row(each.name)
            assert row is not None
            try:
                expected = search.allocate(each, [ClaimRequests.of(wanted)])
            except mo.MoorageError:
                expected = None
                with suppress(LookupError):
                    assert demand.found_on(row) is None
                continue
            view, found = demand.views.view_at(row), demand.found_on(row)
            assert (found is None) == (expected is None)
            if expected is not None and found is not None and view is not None:
                requests = [asked.requests]
                results = claim_results(requests, view, found, by_name.get, state.features)
                assert names(results) == names(expected)


# ---- the machine -------------------------------------------------------------------------------------------


class DeviceMachine(RuleBasedStateMachine):
    @initialize(
        found=st.lists(drivers_devices, min_size=3, max_size=3),
        first=st.lists(claims | pods | pods, min_size=2, max_size=6),
    )
    def begin(self, found: list[list[Json]], first: list[Object]) -> None:
        others: list[Object] = [
            device_class(),
            template("a", [request()]),
            template("b", [request("r", 1, f"{KIND} > 0")]),
        ]
        others += [
            resource_slice(name, each, name=f"own-{name}") for name, each in zip(NODES, found, strict=True)
        ]
        self.one = make(others, [])
        for each in first:
            take(self.one, put(each))

    @rule(step=steps)
    def step(self, step: Step) -> None:
        take(self.one, step)

    @rule(taken=st.lists(steps, min_size=1, max_size=4), inner=st.lists(steps, max_size=2))
    def undone(self, taken: list[Step], inner: list[Step]) -> None:
        before = outcome(self.one.fork())
        with self.one.transaction():
            for each in taken:
                take(self.one, each)
            with self.one.transaction():
                for each in inner:
                    take(self.one, each)
            check_claims(self.one)
            check_answers(self.one)
        assert outcome(self.one.fork()) == before
        with self.one.transaction():
            assert outcome(self.one) == before

    @rule(taken=st.lists(steps, min_size=1, max_size=3))
    def committed(self, taken: list[Step]) -> None:
        branch = self.one.fork()
        with self.one.transaction() as transaction:
            for each in taken:
                take(self.one, each)
                take(branch, each)
            transaction.commit()
        assert outcome(self.one.fork()) == outcome(branch)

    @rule()
    def forked(self) -> None:
        self.one = self.one.fork()

    @invariant()
    def derived_state_is_what_it_would_be_anew(self) -> None:
        check_claims(self.one)
        check_answers(self.one)


TestDeviceMachine = DeviceMachine.TestCase
TestDeviceMachine.settings = settings(
    deadline=None, max_examples=25, stateful_step_count=12, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
def test_the_machine_holds_for_many_steps() -> None:
    run_state_machine_as_test(
        DeviceMachine,
        settings=settings(
            deadline=None, max_examples=400, stateful_step_count=30, suppress_health_check=list(HealthCheck)
        ),
    )
