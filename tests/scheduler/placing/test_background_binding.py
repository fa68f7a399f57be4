"""Binding cycles that take time do not hold up the decisions about other pods."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest
from tests.controllers.persistent_volume.controller_kit import parameters, settle
from tests.doors.cluster import THREADS, threads_for
from tests.doors.controllers import new_controller
from tests.doors.engine import schedule_one
from tests.framework.make import UNSCHEDULABLE, make, status
from tests.make import node, pod
from tests.plugins.volume_binding_kit import LATE, asking, disk, waiting
from tests.scheduler.groups.gang_kit import GATES, gang
from tests.scheduler.make import Clock, profile_with
from tests.scheduler.steps import Steps

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, PreBindPreFlightResult, Status
from moorage.engine.scheduler import Profile
from moorage.kube import (
    Object,
    PersistentVolume,
    Pod,
    PodSchedulingGroup,
)
from moorage.store import InformerFactory, ObjectStore

P, Q, R = "default/p", "default/q", "default/r"


class World:
    """A store that others write too: a controller binds claims three seconds after they were written."""

    def __init__(self, *objects: Object, can_wait: bool = True, **settings: Any) -> None:
        self.clock, self.log = Clock(), list[tuple[float, list[str], list[str]]]()
        self.store = ObjectStore()
        self.store.create_many((node("a", cpu=1), node("b", cpu=1), LATE, *objects))
        self.works_from = 3.0
        self.on_wait: Callable[[], object] = list  # does nothing
        self.informers = InformerFactory(self.store)
        self.controller = new_controller(parameters(self.store, self.informers), clock=self.clock)
        self.settle()
        wait = {"wait": self.wait} if can_wait else {}
        self.scheduler = Scheduler(self.store, clock=self.clock, **wait, **settings)

    def settle(self) -> None:
        """The controller does what it can."""
        settle(self.informers, self.controller)

    def wait(self, seconds: float) -> None:
        """Let time pass, and note what is claimed and bound by then."""
        self.log.append((self.clock.now, self.claimed(), self.bound()))
        self.clock.now += seconds
        self.on_wait()
        if self.clock.now >= self.works_from:
            self.settle()

    def claimed(self) -> list[str]:
        return [one.name for one in self.store.list(PersistentVolume)[0] if one.spec.claim_ref is not None]

    def bound(self) -> list[str]:
        return [one.name for one in self.store.list(Pod)[0] if one.spec.node_name]


def two(**settings: Any) -> World:
    """p and q have a claim each, r has none."""
    claims = waiting("c"), waiting("d"), disk("v"), disk("w")
    return World(*claims, asking("p", "c"), asking("q", "d"), pod("r"), **settings)


# ---- volumes -----------------------------------------------------------------------------------------------


def test_pods_whose_volumes_take_three_seconds_are_bound_after_three_seconds() -> None:
    world = two()
    result = world.scheduler.run()
    assert set(result.placements) == {P, Q, R}
    assert result.binding == {}
    # The claims of the second are written, and the pod without claims is bound, before the first is bound.
    assert world.log == [(at, ["v", "w"], ["r"]) for at in (0.0, 1.0, 2.0)]
    assert world.clock.now == 3.0
    assert sorted(world.bound()) == ["p", "q", "r"]
    assert not world.scheduler.cache.is_assumed_pod(pod("p"))


def test_with_a_clock_alone_nobody_waits() -> None:
    world = two(can_wait=False)
    result = world.scheduler.run()
    nodes = result.binding
    assert (set(result.placements), set(nodes)) == ({R}, {P, Q})
    assert (world.claimed(), world.bound()) == (["v", "w"], ["r"])
    world.clock.now = 2.0
    assert world.scheduler.advance().binding == nodes
    assert world.scheduler.run().binding == {}, "they are not tried again"
    world.clock.now = 3.0
    world.settle()
    result = world.scheduler.advance()
    assert (result.placements, result.binding) == (nodes, {})
    assert sorted(world.bound()) == ["p", "q", "r"]


def test_classes_may_be_numbered_anew_meanwhile() -> None:
    world = two(can_wait=False)
    nodes = world.scheduler.run().binding
    assert world.scheduler.cache.state.number_classes_anew()
    world.settle()
    assert world.scheduler.advance(now=1.0).placements == nodes


def test_volumes_that_are_not_bound_in_time() -> None:
    """Both are taken back when their time is over, and bound when they come again."""
    world = two()
    world.works_from = 601.0
    result = world.scheduler.run()
    assert set(result.placements) == {R}
    text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    assert {key: failure.message for key, failure in result.unschedulable.items()} == {P: text, Q: text}
    assert world.clock.now == 600.0
    assert not world.scheduler.cache.state.has_pod(pod("p"))
    assert world.bound() == ["r"]
    assert set(world.scheduler.run().placements) == {P, Q}


def test_room_that_a_failed_pod_gives_back_goes_to_one_that_waits_for_it() -> None:
    """Two nodes of one cpu: the third pod fits nowhere until the first is taken back."""
    claims = waiting("c"), disk("v", size="10Gi")
    big: dict[str, Any] = {"requests": {"cpu": 1}}
    asked = asking("p", "c", priority=1, **big)
    pods = asked, pod("q", **big), pod("r", **big, preemption_policy="Never")
    world = World(*claims, *pods)
    world.works_from = 1e9
    result = world.scheduler.run()
    assert set(result.placements) == {Q, R}
    assert set(result.unschedulable) == {P}


def test_a_pod_that_is_deleted_while_it_is_bound() -> None:
    world = two(can_wait=False)
    world.scheduler.run()
    world.store.delete(Pod, "p", "default")
    world.settle()
    result = world.scheduler.advance(now=1.0)
    assert (set(result.placements), set(result.unschedulable)) == ({Q}, {P})
    assert "pod does not exist any more" in result.unschedulable[P].message
    assert not world.scheduler.cache.state.has_pod(pod("p"))
    assert world.scheduler.run().placements == {}


def test_a_pod_that_is_evicted_while_it_is_bound_waits_no_longer() -> None:
    claims = waiting("c"), disk("v")
    world = World(*claims, asking("p", "c", requests={"cpu": 1}), can_wait=False)
    assert set(world.scheduler.run().binding) == {P}
    held = world.scheduler.handle.get_pod_in_pre_bind("p")
    assert held is not None
    assert held.cancel_pod("preempted by X")
    result = world.scheduler.advance(now=0.1)
    text = 'running PreBind plugin "VolumeBinding": preempted by X'
    assert result.unschedulable[P].message == text
    assert world.scheduler.handle.get_pod_in_pre_bind("p") is None
    assert not world.scheduler.cache.state.has_pod(pod("p"))


def test_other_ways_to_schedule_wait_for_the_end() -> None:
    world = two()
    pending = world.scheduler.pods.pending
    decision = schedule_one(world.scheduler.context, pending[P])
    assert (decision.node is not None, decision.binding, world.clock.now) == (True, False, 3.0)
    assert world.bound() == ["p"]
    world = two()
    done = world.scheduler.schedule_pods([pending[P], pending[Q]])
    assert (done.failures, world.clock.now, world.bound()) == ({}, 3.0, ["p", "q"])


def test_other_ways_to_schedule_tell_of_failures_at_the_end() -> None:
    world = two()
    world.works_from = 1e9
    pending = world.scheduler.pods.pending
    done = world.scheduler.schedule_pods([pending[R], pending[Q]])
    assert (done.rows.tolist()[1], list(done.failures), world.clock.now) == (-1, [1], 600.0)
    decision = schedule_one(world.scheduler.context, pending[P])
    assert (decision.node, decision.binding) == (None, False)
    assert decision.error.endswith("context deadline exceeded")


def test_with_a_clock_alone_a_single_pod_is_being_bound() -> None:
    world = two(can_wait=False)
    decision = schedule_one(world.scheduler.context, world.scheduler.pods.pending[P])
    assert decision.binding
    world.settle()
    assert world.scheduler.advance(now=1.0).placements == {P: decision.node}


def group_of_two(**settings: Any) -> World:
    """p and q of a group, each with a claim."""
    mine = PodSchedulingGroup("g")
    pods = [asking(name, claim, scheduling_group=mine) for name, claim in zip("pq", "cd", strict=True)]
    volumes = waiting("c"), waiting("d"), disk("v"), disk("w")
    return World(*volumes, gang("g", 2), *pods, feature_gates=GATES, **settings)


@pytest.mark.parametrize("way", ["run", "schedule_workload"])
def test_pods_of_a_group_are_bound_at_the_same_time(way: str) -> None:
    world = group_of_two()
    if way == "run":
        assert set(world.scheduler.run().placements) == {P, Q}
    else:
        done = world.scheduler.schedule_workload(gang("g", 2))
        assert (done.failures, done.rows.min() >= 0) == ({}, True)
    assert (world.clock.now, world.bound()) == (3.0, ["p", "q"])


def test_pods_of_a_group_that_are_not_bound_in_time() -> None:
    world = group_of_two()
    world.works_from = 1e9
    done = world.scheduler.schedule_workload(gang("g", 2))
    assert done.rows.tolist() == [-1, -1]
    assert {failure.error.rpartition(": ")[2] for failure in done.failures.values()} == {
        "context deadline exceeded"
    }


# ---- plugins that wait -------------------------------------------------------------------------------------


def waits(*seconds: Any, says: Status | None = None) -> Any:
    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, Status | None]:
        yield from seconds
        return says

    return pre_bind


def bound_at(*plugins: Any) -> tuple[Any, float]:
    """The result of a run, and when it ended."""
    clock = Clock()

    def wait(seconds: float) -> None:
        clock.now += seconds

    store = ObjectStore()
    store.create_many((node("a"), pod("p"), pod("q")))
    one = Scheduler(store, profile=profile_with(*plugins), clock=clock, wait=wait)
    return one.run(), clock.now


@pytest.mark.parametrize(("parallel", "end"), [(False, 9.0), (True, 5.0)])
def test_neighbours_that_allow_it_wait_at_the_same_time(parallel: bool, end: float) -> None:
    flight = (PreBindPreFlightResult(parallel), None)
    plugins = [
        make(mo.PreBindPlugin, name, pre_bind=waits(*seconds), pre_bind_pre_flight=flight)
        for name, seconds in (("A", (1.0, 2.0)), ("B", (4.0, 1.0)), ("C", (0.0, 1.0)))
    ]
    result, now = bound_at(*plugins)
    assert (set(result.placements), now) == ({P, Q}, end)


def test_no_time_to_wait_lets_others_have_their_turn() -> None:
    order: list[str] = []

    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
        for _ in range(4):
            order.append(pod.name)
            yield 0.0

    result, now = bound_at(make(mo.PreBindPlugin, "A", pre_bind=pre_bind))
    assert (set(result.placements), now) == ({P, Q}, 0.0)
    assert order[:4] == ["p", "p", "q", "p"]


def test_a_plugin_that_fails_after_a_while_ends_the_waiting_of_others() -> None:
    closed: list[str] = []
    kept = []

    def steps(name: str) -> Generator[float, None, None]:
        try:
            yield 100.0
        finally:
            closed.append(name)

    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
        kept.append(steps(pod.name))
        return kept[-1]

    flight = (PreBindPreFlightResult(True), None)
    plugins = [
        make(mo.PreBindPlugin, "A", pre_bind=pre_bind, pre_bind_pre_flight=flight),
        make(
            mo.PreBindPlugin,
            "B",
            pre_bind=waits(2.0, says=status(Code.ERROR, "no")),
            pre_bind_pre_flight=flight,
        ),
    ]
    result, now = bound_at(*plugins)
    assert {one.message for one in result.unschedulable.values()} == {'running PreBind plugin "B": no'}
    assert (now, closed) == (2.0, ["p", "q"])


def raises(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
    yield 1.0
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("pre_bind", "text"),
    [
        (waits(2.0, says=status(UNSCHEDULABLE, "no")), "0/1 nodes are available: 1 no."),
        (waits("soon"), 'running PreBind plugin "A": plugin "A" answered str, not seconds to wait'),
        (waits(-1.0), 'running PreBind plugin "A": plugin "A" answered float, not seconds to wait'),
        (raises, 'running PreBind plugin "A": plugin "A" raised ValueError: boom'),
    ],
)
def test_what_ends_in_failure_after_a_while(pre_bind: Any, text: str) -> None:
    result, _ = bound_at(make(mo.PreBindPlugin, "A", pre_bind=pre_bind))
    assert {one.message for one in result.unschedulable.values()} == {text}


def test_in_a_store_of_its_own_waiting_takes_no_time() -> None:
    """A pod is bound before the next one is decided about."""
    order: list[str] = []

    def reserve(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        order.append(f"reserve {pod.name}")

    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
        order.append(f"begin {pod.name}")
        yield 5.0
        order.append(f"end {pod.name}")

    plugins = make(mo.ReservePlugin, "A", reserve=reserve), make(mo.PreBindPlugin, "B", pre_bind=pre_bind)
    cluster = mo.Cluster(nodes=[node("a")], pods=[pod("p"), pod("q")])
    Scheduler(cluster, profile=profile_with(*plugins)).run()
    assert order == [f"{what} {name}" for name in "pq" for what in ("reserve", "begin", "end")]


def test_whoever_interrupts_a_binding_leaves_nothing_assumed() -> None:
    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
        yield 1.0
        raise KeyboardInterrupt

    steps = Steps()
    cluster = mo.Cluster(nodes=[node("a")], pods=[pod("p")])
    one = Scheduler(cluster, profile=profile_with(steps, make(mo.PreBindPlugin, "B", pre_bind=pre_bind)))
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert not one.cache.state.has_pod(pod("p"))
    assert one.bindings.running == {}
    assert steps.log[-1] == "unreserve p a"


def test_whoever_interrupts_a_binding_after_a_while_leaves_nothing_assumed() -> None:
    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> Generator[float, None, None]:
        yield 1.0
        raise KeyboardInterrupt

    clock = Clock()

    def wait(seconds: float) -> None:
        clock.now += seconds

    plugin = make(mo.PreBindPlugin, "B", pre_bind=pre_bind)
    cluster = mo.Cluster(nodes=[node("a")], pods=[pod("p")])
    one = Scheduler(cluster, profile=profile_with(plugin), clock=clock, wait=wait)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert clock.now == 1.0
    assert not one.cache.state.has_pod(pod("p"))
    assert one.bindings.running == {}


def test_whoever_interrupts_a_binding_after_permit_leaves_nothing_waiting() -> None:
    def permit(self: Any, state: Any, pod: Pod, node_name: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 10.0

    def pre_bind_pre_flight(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        raise KeyboardInterrupt

    plugins = (
        make(mo.PermitPlugin, "A", permit=permit),
        make(mo.PreBindPlugin, "B", pre_bind_pre_flight=pre_bind_pre_flight),
    )
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(*plugins))
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert not one.cache.state.has_pod(pod("p"))
    assert len(one.handle.waiting_pods) == 0


# ---- threads -----------------------------------------------------------------------------------------------


def in_threads(*plugins: Any, threads: int = 2, pods: str = "pq") -> Any:
    store = ObjectStore()
    store.create_many((node("a"), node("b"), *map(pod, pods)))
    profile = Profile((*plugins, *default_profile().plugins))  # before DefaultBinder
    return Scheduler(store, profile=profile, binding_threads=threads)


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_plugins_that_block_are_at_work_beside_the_decisions(point: str) -> None:
    """Each pod is bound only when the other one is being bound, too."""
    meeting = threading.Barrier(2, timeout=60)

    def block(self: Any, state: Any, pod: Pod, node_name: str) -> Any:
        meeting.wait()
        return status(Code.SKIP) if point == "bind" else None

    of = {"pre_bind": mo.PreBindPlugin, "bind": mo.BindPlugin}[point]
    one = in_threads(make(of, "Blocks", **{point: block}))
    assert set(one.run().placements) == {P, Q}
    assert not one.cache.is_assumed_pod(pod("p"))


def test_failures_in_threads_are_handled_by_the_scheduler() -> None:
    seen: list[bool] = []

    class Fails(Steps):
        name = "Fails"

        def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Any:
            seen.append(threading.current_thread() is threading.main_thread())
            return status(Code.ERROR, "no") if pod.name == "p" else None

        def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
            seen.append(threading.current_thread() is threading.main_thread())

    one = in_threads(Fails(), pods="p")
    assert one.run().unschedulable[P].message == 'running PreBind plugin "Fails": no'
    assert seen == [False, True]
    assert not one.cache.state.has_pod(pod("p"))


def test_waiting_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten pods that wait, and one thread."""
    one = in_threads(make(mo.PreBindPlugin, "A", pre_bind=waits(0.0, 0.0, 0.0)), threads=1, pods="pqrstuvwxy")
    assert len(one.run().placements) == 10


def test_the_scheduler_hears_of_changes_while_threads_are_at_work() -> None:
    """One pod waits for what the PreBind of another one writes, which ends only then."""
    seen = threading.Event()

    def wait_for_r(self: Any) -> Generator[float, None, Status | None]:
        for _ in range(10_000):
            if any(one.name == "r" for one in self.handle.informers.lister(Pod).list()):
                seen.set()
                return None
            yield 0.001
        return status(Code.ERROR, "heard nothing")

    def pre_bind(self: Any, state: Any, asked: Pod, node_name: str) -> Any:
        if asked.name == "p":
            return wait_for_r(self)
        self.handle.client.create(pod("r", scheduler_name="another"))
        return None if seen.wait(60) else status(Code.ERROR, "waited in vain")

    one = in_threads(make(mo.PreBindPlugin, "A", pre_bind=pre_bind))
    assert set(one.run().placements) == {P, Q}


def test_an_exception_of_a_thread_comes_through() -> None:
    def pre_bind(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        raise KeyboardInterrupt

    one = in_threads(make(mo.PreBindPlugin, "A", pre_bind=pre_bind), pods="p")
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert not one.cache.state.has_pod(pod("p"))


def test_who_has_threads() -> None:
    store, remote = ObjectStore(), object()
    cases: list[tuple[Any, int | None, object, int]] = [
        (store, None, None, 0),
        (remote, None, None, THREADS),
        (remote, 3, None, 3),
        (remote, None, Clock(), 0),
        (remote, 0, None, 0),
        (store, 2, None, 2),
        (mo.Cluster(), None, None, 0),
    ]
    for cluster, asked, time, threads in cases:
        assert threads_for(cluster, asked, time) == threads
    for settings in ({"clock": Clock()}, {"wait": Clock}, {}):
        with pytest.raises(
            ValueError,
            match="binding_threads must be at least 0, and 0 with a Cluster, a clock or wait, not 2",
        ):
            Scheduler(store if settings else mo.Cluster(), binding_threads=2, **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a clock or wait, not -1"):
        Scheduler(store, binding_threads=-1)


# ---- preemption --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("can_wait", [True, False])
def test_a_pod_that_is_being_bound_makes_room_for_a_more_important_one(can_wait: bool) -> None:
    """Upstream cancels its PreBind; it is not deleted, and comes to the queue again."""
    big: dict[str, Any] = {"requests": {"cpu": 1}}
    others = disk("v"), waiting("c"), pod("r", **big, priority=5)
    world = World(*others, asking("p", "c", **big), can_wait=can_wait)
    world.works_from = 1e9
    important = pod("q", **big, priority=9)

    if can_wait:
        world.on_wait = lambda: world.store.create(important) if world.clock.now == 2.0 else None
        result = world.scheduler.run()
        assert world.clock.now == 2.0
    else:
        world.scheduler.run()
        world.store.create(important)
        result = world.scheduler.run()
    assert (result.placements[Q], result.binding) == ("b", {})
    text = 'running PreBind plugin "VolumeBinding": preempted by DefaultPreemption'
    assert result.unschedulable[P].message == text
    assert result.evicted == {}
    assert world.store.get(Pod, "p", "default").spec.node_name == ""
    assert sorted(world.bound()) == ["q", "r"]
