"""Plugins of v1alpha1 in a Scheduler: what they are asked on a pod's way to a node, and what they can use."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest
from tests.compat.v1alpha1.world import Log, plugin, wait
from tests.doors.engine import interface as today
from tests.doors.engine import schedule_one
from tests.framework.make import UNSCHEDULABLE, WAIT, make, status
from tests.make import node, pod
from tests.scheduler.make import Clock, profile_with, scheduler_with

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.compat.v1alpha1 import (
    Code,
    Error,
    FrameworkError,
    FrameworkHandle,
    NewStatus,
    Plugin,
    PluginContext,
    ProfileHandle,
    Status,
    Unknown,
    Unschedulable,
    WaitingPod,
    adapt,
    adapt_factory,
)
from moorage.kube import Cluster, Pod
from moorage.store import ObjectStore

KEY = "default/p"
NODES = [node("a"), node("b")]


def scheduler(*plugins: Any, pods: tuple[str, ...] = ("p",), **settings: Any) -> Scheduler:
    """A scheduler with plugins of v1alpha1, and of today, over pods that each need most of a node."""
    own = [one if isinstance(one, today.Plugin) else adapt(one) for one in plugins]
    waiting = [pod(name, requests={"cpu": 3}) for name in pods]
    return scheduler_with(*own, pods=waiting, nodes=NODES, **settings)


def node_of(one: Scheduler, name: str = "p") -> str:
    """The node that a pod is bound to."""
    return one.client.get(Pod, name, "default").spec.node_name


def points(log: Log) -> list[str]:
    return [point for _, point, *_ in log]


def condition(one: Scheduler) -> tuple[str, str]:
    (found,) = one.client.get(Pod, "p", "default").status.conditions
    return found.reason, found.message


# ---- the way ---------------------------------------------------------------------------------------------


def test_reserve_sees_the_pod_in_the_cache_and_it_is_bound_after_prebind() -> None:
    seen: list[Any] = []

    def look(pc: PluginContext, p: Pod, node_name: str) -> None:
        seen.append((one.cache.is_assumed_pod(p), p.spec.node_name, node_of(one)))

    def permit(pc: PluginContext, p: Pod, node_name: str) -> tuple[None, float]:
        look(pc, p, node_name)
        return None, 0.0

    one = scheduler(plugin("x", Reserve=look, Permit=permit, Prebind=look))
    one.run()
    assert (seen, node_of(one)) == ([(True, "a", "")] * 3, "a")


def test_plugins_of_one_point_run_in_order_beside_todays() -> None:
    log: Log = []

    def note(self: Any, state: Any, pod: Pod, node_name: str) -> None:
        log.append(("today", "Reserve", pod.name, node_name))

    todays = make(mo.ReservePlugin, "Today", reserve=note)
    one = scheduler(plugin("first", log, Reserve=None), todays, plugin("last", log, Reserve=None))
    one.run()
    assert [name for name, *_ in log] == ["first", "today", "last"]


@pytest.mark.parametrize("code", [Error, Unschedulable])
def test_a_pod_that_was_not_reserved_stays_unscheduled_and_nobody_unreserves(code: Code) -> None:
    log: Log = []
    one = scheduler(
        plugin("first", log, Reserve=None, Unreserve=None),
        plugin("bad", log, Reserve=NewStatus(code, "no"), Unreserve=None),
        plugin("late", log, Reserve=None, Permit=(None, 0.0), Prebind=None),
    )
    assert one.run().placements == {}
    assert (node_of(one), one.cache.state.has_pod(pod("p"))) == ("", False)
    assert condition(one) == ("SchedulerError", 'running Reserve plugin "bad": no')
    assert [(name, point) for name, point, *_ in log] == [("first", "Reserve"), ("bad", "Reserve")]


def test_nobody_unreserves_either_where_a_plugin_of_today_fails_at_reserve() -> None:
    log: Log = []
    todays = make(mo.ReservePlugin, "Today", reserve=status(UNSCHEDULABLE, "no"))
    one = scheduler(plugin("first", log, Reserve=None, Unreserve=None), todays)
    assert one.run().placements == {}
    assert points(log) == ["Reserve"]


@pytest.mark.parametrize(
    ("point", "answer", "reason", "message"),
    [
        ("Permit", (NewStatus(Unschedulable, "no"), 0.0), "Unschedulable", "0/1 nodes are available: 1 no."),
        ("Permit", (NewStatus(Error, "no"), 0.0), "SchedulerError", 'running Permit plugin "bad": no'),
        ("Permit", wait(0), "Unschedulable", "0/1 nodes are available: 1 rejected due to timeout after "
         "waiting 0s at plugin bad."),
        ("Prebind", NewStatus(Unschedulable, "no"), "Unschedulable", "0/1 nodes are available: 1 no."),
        ("Prebind", NewStatus(Error, "no"), "SchedulerError", 'running PreBind plugin "bad": no'),
        ("Prebind", ValueError("no"), "SchedulerError", 'running PreBind plugin "bad": plugin "bad" raised '
         "ValueError: no"),
    ],
)  # fmt: skip
def test_a_pod_that_is_rejected_later_is_not_bound_and_its_plugins_clean_up(
    point: str, answer: Any, reason: str, message: str
) -> None:
    log: Log = []
    held: set[str] = set()
    keeper = plugin(
        "keeper",
        log,
        Reserve=lambda pc, p, node_name: held.add(p.name),
        Unreserve=lambda pc, p, node_name: held.remove(p.name),
    )
    one = scheduler(keeper, plugin("bad", log, **{point: answer}), plugin("late", log, Prebind=None))
    schedule_one(one.context, one.pods.pending[KEY])
    assert (node_of(one), one.cache.state.has_pod(pod("p")), held) == ("", False, set())
    assert points(log) == ["Reserve", point, "Unreserve"]
    assert condition(one) == (reason, message)


def test_unreserve_plugins_run_in_order_after_todays_and_need_not_reserve() -> None:
    log: Log = []

    def todays(name: str) -> Any:
        def note(self: Any, state: Any, pod: Pod, node_name: str) -> None:
            log.append((name, "Unreserve", pod.name, node_name))

        return make(mo.ReservePlugin, name, unreserve=note)

    plugins = [plugin(name, log, Unreserve=None) for name in "ca"]
    one = scheduler(todays("T"), *plugins, todays("U"), plugin("bad", Prebind=NewStatus(Error, "no")))
    schedule_one(one.context, one.pods.pending[KEY])
    assert [name for name, *_ in log] == ["U", "T", "c", "a"]


def test_an_exception_of_a_plugin_can_end_the_run() -> None:
    one = scheduler(plugin("bad", Reserve=ValueError("no")), fail_fast=True)
    with pytest.raises(ValueError, match=r"^no$"):
        one.run()


# ---- waiting -----------------------------------------------------------------------------------------------


class Handled:
    """The handle that a factory received, and plugins that it made."""

    def __init__(self, **answers: Any) -> None:
        self.handle: FrameworkHandle = ProfileHandle()
        self.answers = answers

    def __call__(self, configuration: Unknown | None, handle: FrameworkHandle) -> Plugin:
        self.handle = handle
        return plugin("x", **self.answers)  # type: ignore[no-any-return]


def waiting(*others: Any, pods: tuple[str, ...] = ("p",), **answers: Any) -> tuple[Scheduler, Handled, Clock]:
    """A scheduler whose pods wait on Permit, as long as 10 s by plugin x, and that plugin's handle."""
    made, clock = Handled(**{"Permit": wait(10)} | answers), Clock(100.0)
    one = scheduler(adapt_factory(made)(), *others, pods=pods, clock=clock)
    assert one.run().waiting == dict(zip((f"default/{name}" for name in pods), "ab", strict=False))
    return one, made, clock


def get(made: Handled, uid: str = "p") -> WaitingPod:
    found = made.handle.GetWaitingPod(uid)
    assert found is not None
    return found


def test_permit_comes_before_prebind_and_prebind_after_the_wait() -> None:
    log: Log = []
    one, made, _ = waiting(plugin("y", log, Prebind=None, Permit=(None, 0.0)))
    assert (points(log), node_of(one), one.cache.is_assumed_pod(pod("p"))) == (["Permit"], "", True)
    assert get(made).Allow()
    assert one.advance().placements == {KEY: "a"}
    assert (points(log), node_of(one)) == (["Permit", "Prebind"], "a")


def test_one_allow_is_enough_for_all_who_asked_to_wait_and_is_delivered_once() -> None:
    one, made, _ = waiting(plugin("y", Permit=wait(5)))
    found = get(made)
    assert [found.Allow(), found.Allow(), found.Reject("late"), get(made).Allow()] == [True, *[False] * 3]
    assert one.advance().placements == {KEY: "a"}
    assert made.handle.GetWaitingPod("p") is None
    assert (found.Allow(), found.Reject("late")) == (False, False)


def test_a_pod_that_is_rejected_while_it_waits_is_unschedulable() -> None:
    one, made, _ = waiting()
    found = get(made)
    assert [found.Reject("quota: none"), found.Reject("late"), found.Allow()] == [True, False, False]
    failure = one.advance().unschedulable[KEY]
    assert failure.message == "0/1 nodes are available: 1 rejected while waiting at permit: quota: none."
    assert failure.diagnosis is not None
    assert failure.diagnosis.chosen is not None
    assert failure.diagnosis.chosen.plugin == "x"


@pytest.mark.parametrize("signal", [lambda found: found.Allow(), lambda found: found.Reject("late")])
def test_no_signal_is_delivered_when_the_time_is_over(signal: Callable[[WaitingPod], bool]) -> None:
    one, made, clock = waiting()
    found = get(made)
    clock.now += 10
    assert (signal(found), found.Allow(), found.Reject("late")) == (False, False, False)
    assert "rejected due to timeout after waiting 10s" in one.advance().unschedulable[KEY].message


def test_allow_speaks_for_plugins_of_this_api_alone() -> None:
    todays = make(mo.PermitPlugin, "Today", permit=(status(WAIT), 60))
    one, made, _ = waiting(todays)
    assert (get(made).Allow(), get(made).Allow()) == (True, False)
    assert one.advance(150).waiting == {KEY: "a"}
    one.handle.iterate_over_waiting_pods(lambda each: each.allow("Today"))
    assert one.advance(150).placements == {KEY: "a"}


def test_iteration_meets_all_pods_that_wait_and_they_are_found_by_uid() -> None:
    one, made, _ = waiting(pods=("p", "q"))
    met: list[Any] = []

    def meet(found: WaitingPod) -> None:
        assert found == made.handle.GetWaitingPod(found.GetPod().metadata.uid)
        met.append((found.GetPod().name, found.GetPod().spec.node_name))
        assert found.Allow() if found.GetPod().name == "p" else found.Reject("no")

    made.handle.IterateOverWaitingPods(meet)
    assert met == [("p", "a"), ("q", "b")]
    result = one.advance()
    assert (result.placements, list(result.unschedulable)) == ({KEY: "a"}, ["default/q"])
    assert made.handle.GetWaitingPod("nobody") is None


# ---- what a plugin can use ---------------------------------------------------------------------------------


def test_the_snapshot_is_of_the_beginning_of_the_cycle_until_reserve_is_done() -> None:
    seen: list[Any] = []

    def look(pc: PluginContext, p: Pod, node_name: str) -> None:
        snapshot = made.handle.NodeInfoSnapshot()
        infos = snapshot.NodeInfoMap
        held = {name: [held.name for held in info.pods] for name, info in infos.items()}
        seen.append((p.name, held, infos[node_name].name, len(infos), "c" in infos))
        assert snapshot is made.handle.NodeInfoSnapshot()
        generations.append(snapshot.Generation)

    generations: list[int] = []
    made = Handled(Reserve=look)
    one = scheduler(adapt_factory(made)(), pods=("p", "q"))
    one.run()
    assert seen == [("p", {"a": [], "b": []}, "a", 2, False), ("q", {"a": ["p"], "b": []}, "b", 2, False)]
    assert generations[0] < generations[1]


def test_each_cycle_has_a_context_of_its_own_from_reserve_to_unreserve() -> None:
    seen: list[list[str]] = []

    def write(pc: PluginContext, p: Pod, node_name: str) -> None:
        with pytest.raises(FrameworkError, match=r"^not found$"):
            pc.Read("who")
        pc.Write("who", [p.name])

    def alter(pc: PluginContext, p: Pod, node_name: str) -> tuple[None, float]:
        pc.Write("who", [*pc.Read("who"), "permitted"])
        return None, 0.0

    def delete(pc: PluginContext, p: Pod, node_name: str) -> None:
        seen.append(pc.Read("who"))
        pc.Delete("who")

    one = scheduler(
        plugin("x", Reserve=write),
        plugin("y", Permit=alter),
        plugin("bad", Prebind=NewStatus(Error, "no")),
        plugin("z", Unreserve=delete),
        plugin("last", Unreserve=write),
        pods=("p", "q"),
        fail_fast=True,
    )
    for name in ("p", "q"):
        schedule_one(one.context, one.pods.pending[f"default/{name}"])
    assert seen == [["p", "permitted"], ["q", "permitted"]]


def test_prebind_may_block_in_a_thread_with_the_context_of_its_cycle() -> None:
    """Each pod is bound only when the other one is being bound too."""
    meeting, seen = Barrier(2, timeout=60), []

    def write(pc: PluginContext, p: Pod, node_name: str) -> None:
        pc.Write("who", p.name)

    def meet(pc: PluginContext, p: Pod, node_name: str) -> None:
        meeting.wait()
        seen.append((p.name, pc.Read("who")))

    store = ObjectStore()
    store.create_many((*NODES, pod("p"), pod("q")))
    profile = profile_with(adapt(plugin("x", Reserve=write, Prebind=meet)))
    one = Scheduler(store, profile=profile, binding_threads=2)
    assert one.run().placements == {KEY: "a", "default/q": "b"}
    assert sorted(seen) == [("p", "p"), ("q", "q")]


class Quota:
    """Lets so many pods on a node, by its configuration, and counts them by the snapshot."""

    def __init__(self, configuration: Unknown | None, handle: FrameworkHandle) -> None:
        self.pods = 1 if configuration is None else json.loads(configuration.Raw)["pods"]
        assert configuration is None or configuration.ContentType == "application/json"
        self.handle = handle

    def Name(self) -> str:
        return "Quota"

    def Permit(self, pc: PluginContext, p: Pod, node_name: str) -> tuple[Status | None, float]:
        there = self.handle.NodeInfoSnapshot().NodeInfoMap[node_name].pods
        full = len(there) >= self.pods
        return (NewStatus(Unschedulable, f"{node_name} is full") if full else None), 0.0


def small(*names: str) -> list[Pod]:
    return [pod(name) for name in names]


@pytest.mark.parametrize(
    ("arguments", "bound"), [({}, 1), ({"pluginConfig": [{"name": "Quota", "args": {"pods": 3}}]}, 3)]
)
@pytest.mark.parametrize("point", ["permit", "multiPoint"])
def test_a_factory_in_a_registry_is_named_in_a_configuration(
    point: str, arguments: dict[str, Any], bound: int
) -> None:
    profile = {"plugins": {point: {"enabled": [{"name": "Quota"}]}}} | arguments
    one = Scheduler(
        Cluster(nodes=NODES[:1], pods=small("p0", "p1", "p2", "p3")),
        config={
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        },
        registry=mo.Registry({"Quota": adapt_factory(Quota)}),
    )
    result = one.run()
    assert (len(result.placements), len(result.unschedulable)) == (bound, 4 - bound)
    assert {one.message for one in result.unschedulable.values()} == {"0/1 nodes are available: 1 a is full."}


def test_a_factory_makes_plugins_for_a_profile() -> None:
    made = adapt_factory(Quota)()
    with pytest.raises(FrameworkError, match=r"^the plugin is not part of a scheduler$"):
        made.plugin.handle.NodeInfoSnapshot()  # type: ignore[attr-defined]
    one = Scheduler(Cluster(nodes=NODES, pods=small("p", "q", "r")), profile=profile_with(made))
    assert one.run().placements == {KEY: "a", "default/q": "b"}


def test_plugins_of_two_profiles_each_have_their_own_handle() -> None:
    profiles = [
        mo.Profile((*default_profile().plugins, adapt_factory(Quota)({"pods": at})), scheduler_name=f"s{at}")
        for at in (1, 2)
    ]
    pods = [pod(f"p{at}", scheduler_name="s1" if at < 2 else "s2") for at in range(5)]
    one = Scheduler(Cluster(nodes=NODES[:1], pods=pods), profiles=profiles)
    result = one.run()
    assert list(result.placements) == ["default/p0", "default/p2"]
