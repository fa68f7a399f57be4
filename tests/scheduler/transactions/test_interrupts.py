"""Whatever exception ends a run: no pod is lost, none stays assumed, and usage is that of the pods."""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.engine import schedule_pods
from tests.framework.make import make
from tests.make import node, pod
from tests.scheduler.groups import gang_kit
from tests.scheduler.groups.gang_kit import composite, gang, members, topology
from tests.scheduler.make import Clock, profile_with, scheduler_with
from tests.scheduler.transactions.interrupts import PACKAGE, check_settled, check_usage, struck

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Code, Status
from moorage.kube import Node, Pod, PodGroup

World = Callable[[], Scheduler]


def core() -> Scheduler:
    """Pods that the core places in one go, one that fits nowhere, and one that names its node."""
    nodes = [node(name, cpu="2") for name in "abc"]
    pods = [pod(f"p{at}", requests={"cpu": "1"}) for at in range(4)]
    others = [pod("big", requests={"cpu": "64"}), pod("named", node_selector={"kubernetes.io/hostname": "a"})]
    return Scheduler(mo.Cluster(nodes=nodes, pods=[*pods, *others]))


def evicting() -> Scheduler:
    """Pods that others must go for."""
    low = [pod(f"low{at}", "ab"[at % 2], requests={"cpu": "1"}) for at in range(4)]
    high = [pod("h1", requests={"cpu": "2"}, priority=10), pod("h2", requests={"cpu": "1"}, priority=5)]
    return Scheduler(mo.Cluster(nodes=[node("a", cpu="2"), node("b", cpu="2")], pods=[*low, *high]))


def whole() -> Scheduler:
    """Pods that plugins in Python have a say in, up to their binding."""
    plugins = [
        make(mo.FilterPlugin, "Filters", filter=None),
        make(mo.ReservePlugin, "Reserves", reserve=None, unreserve=None),
        make(mo.PermitPlugin, "Permits", permit=(None, 0)),
        make(mo.PreBindPlugin, "PreBinds", pre_bind=None),
    ]
    return scheduler_with(*plugins, pods=[pod(f"p{at}") for at in range(3)])


def waiting() -> Scheduler:
    """Pods that wait on Permit, until their time is up."""
    late = make(mo.PermitPlugin, "Late", permit=(Status(Code.WAIT), 10.0))
    profile = profile_with(late)
    pods = [pod(f"p{at}") for at in range(2)]
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=pods), profile=profile, clock=Clock())
    one.run()
    return one


def gangs() -> Scheduler:
    """Groups that are placed together, and one of which a pod fits nowhere."""
    groups = [gang("a", 2), gang("b", 2), gang("c", 1)]
    pods = [*members("a", 2), *members("b", 2), *members("c", 2, 2)]
    return gang_kit.world(gang_kit.nodes(4, 2), groups, pods)


def racks() -> list[Node]:
    return [node(name, labels={"rack": name}, cpu="2") for name in "abc"]


def bound_gangs() -> Scheduler:
    """Groups that are placed by what is remembered of the racks."""
    groups = [gang(name, 2, **topology("rack")) for name in "ab"]
    pods = [*members("a", 2), *members("b", 2)]
    return gang_kit.world(racks(), groups, pods, feature_gates=gang_kit.TOPOLOGY)


def bound_tree() -> Scheduler:
    """A tree whose groups go to one rack."""
    groups = [composite("t", 2, **topology("rack")), gang("a", 1, "t"), gang("b", 1, "t")]
    pods = [*members("a", 1), *members("b", 1)]
    return gang_kit.world(racks(), groups, pods, feature_gates=gang_kit.TREES)


def evicting_gang() -> Scheduler:
    """A group that others must go for."""
    low = [pod("low0", "a", requests={"cpu": "1"}), pod("low1", "b", requests={"cpu": "2"})]
    return gang_kit.world(
        gang_kit.nodes(2, 2), gang("g", 3, priority=10), [*low, *members("g", 3, priority=10)]
    )


def run(one: Scheduler) -> None:
    one.run()


def schedule(one: Scheduler) -> None:
    one.schedule_pods([pod(f"q{at}", requests={"cpu": "1"}) for at in range(3)])


def schedule_one(one: Scheduler) -> None:
    schedule_pods.schedule_one(one.context, pod("q", requests={"cpu": "1"}))


def schedule_group(one: Scheduler) -> None:
    one.schedule_workload(one.client.list(PodGroup)[0][0])


def advance(one: Scheduler) -> None:
    one.advance(20.0)


def settle(one: Scheduler) -> None:
    """Let it go on after an interrupt, and look."""
    check_usage(one)
    assert not [uid for uid in one.cache.state.assumed_pods() if uid not in one.bindings.waiting]
    one.run()
    one.run()
    check_settled(one)


def strike_everywhere(
    make_world: World,
    action: Callable[[Scheduler], None],
    first: int,
    step: int,
    files: str | tuple[str, ...] = PACKAGE,
) -> int:
    """Interrupt at every `step`-th trace event; how often that was."""
    expected = make_world()
    expected.run()
    expected.run()
    count, at = 0, first
    while True:
        one = make_world()
        if not struck(lambda one=one: action(one), at, files):  # type: ignore[misc]
            return count
        settle(one)
        if action is run:
            assert len(bound(one)) == len(bound(expected))
        count, at = count + 1, at + step


def bound(one: Scheduler) -> list[str]:
    return [each.name for each in one.client.list(Pod)[0] if each.spec.node_name]


CASES = [
    (core, run),
    (evicting, run),
    (whole, run),
    (waiting, advance),
    (core, schedule),
    (core, schedule_one),
]


@pytest.mark.parametrize(("make_world", "action"), CASES)
def test_an_interrupt_leaves_nothing_halfway(make_world: World, action: Any) -> None:
    assert strike_everywhere(make_world, action, first=1, step=131) > 1


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(10))
@pytest.mark.parametrize(("make_world", "action"), CASES)
def test_an_interrupt_at_any_line_leaves_nothing_halfway(make_world: World, action: Any, offset: int) -> None:
    assert strike_everywhere(make_world, action, first=offset + 1, step=10) > 10


GROUP_FILES = tuple(f"{PACKAGE}/engine/scheduler/{name}" for name in ("group_", "place_group"))
GROUPS = [(make_world, run) for make_world in (gangs, bound_gangs, bound_tree, evicting_gang)]
GROUPS.append((gangs, schedule_group))


@pytest.mark.parametrize(("make_world", "action"), GROUPS)
def test_an_interrupt_leaves_no_group_halfway(make_world: World, action: Any) -> None:
    assert strike_everywhere(make_world, action, 1, 37, GROUP_FILES) > 5


@pytest.mark.slow
@pytest.mark.parametrize("offset", range(5))
@pytest.mark.parametrize(("make_world", "action"), GROUPS)
def test_an_interrupt_at_any_line_leaves_no_group_halfway(
    make_world: World, action: Any, offset: int
) -> None:
    assert strike_everywhere(make_world, action, offset + 1, 5, GROUP_FILES) > 20


@pytest.mark.parametrize("action", [schedule, schedule_one])
def test_an_interrupt_at_the_last_lines_takes_the_pods_back(action: Any) -> None:
    """The caller does not receive the result then."""

    def struck_at(at: int, one: Scheduler) -> bool:
        return struck(lambda: action(one), at)

    last = bisect(range(1, 1 << 14), False, key=lambda at: not struck_at(at, core()))
    for at in range(last - 6, last + 1):
        one = core()
        assert struck_at(at, one)
        settle(one)
    assert not struck_at(last + 1, core())


# ---- exceptions of plugins ---------------------------------------------------------------------------------

METHODS = [
    (mo.PreEnqueuePlugin, "pre_enqueue", None),
    (mo.PreFilterPlugin, "pre_filter", None),
    (mo.FilterPlugin, "filter", None),
    (mo.PreScorePlugin, "pre_score", None),
    (mo.ScorePlugin, "score", 0),
    (mo.ReservePlugin, "reserve", None),
    (mo.PermitPlugin, "permit", (None, 0)),
    (mo.PreBindPlugin, "pre_bind_pre_flight", (None, None)),
    (mo.PreBindPlugin, "pre_bind", None),
    (mo.PostBindPlugin, "post_bind", None),
]


class Bomb:
    """Raises at the call of a number, and never again."""

    def __init__(self, error: BaseException, at: int) -> None:
        self.error = error
        self.at = at
        self.calls = 0

    def __call__(self, *arguments: Any) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("fast")])
@pytest.mark.parametrize(("base", "method", "answer"), METHODS)
def test_an_exception_of_a_plugin_leaves_nothing_halfway(
    base: Any, method: str, answer: Any, error: BaseException
) -> None:
    for at in (1, 2, 4):
        bomb = Bomb(error, at)

        def call(self: Any, *rest: Any, bomb: Bomb = bomb) -> Any:
            bomb()
            return answer

        reserves = make(mo.ReservePlugin, "Reserves", reserve=None, unreserve=None)
        others = {"pre_bind": None} if issubclass(base, mo.PreBindPlugin) else {}
        one = scheduler_with(make(base, "Bad", **{**others, method: call}), reserves, fail_fast=True)
        one.client.create_many(pod(f"p{number}") for number in range(5))
        with pytest.raises(type(error)):
            one.run()
        check_usage(one)
        assert one.cache.state.assumed_pods() == []
        one.run()
        assert sorted(bound(one)) == [f"p{number}" for number in range(5)]
        check_settled(one)


def test_a_plugin_that_ends_the_program_is_unreserved() -> None:
    seen: list[str] = []
    reserves = make(
        mo.ReservePlugin, "Reserves", unreserve=lambda self, state, pod, node: seen.append(pod.name)
    )
    ends = make(mo.PreBindPlugin, "Ends", pre_bind=lambda *rest: sys.exit(1))
    one = scheduler_with(reserves, ends, pods=[pod("p")])
    with pytest.raises(SystemExit):
        one.run()
    assert seen == ["p"]


def test_schedule_takes_back_what_it_had_placed() -> None:
    bomb = Bomb(KeyboardInterrupt(), 5)
    one = scheduler_with(make(mo.FilterPlugin, "Bad", filter=lambda self, *rest: bomb()))
    one.client.create_many(pods := [pod(f"p{at}") for at in range(3)])
    with pytest.raises(KeyboardInterrupt):
        one.schedule_pods(pods)
    check_usage(one)
    one.run()
    check_settled(one)


@pytest.mark.parametrize("make_world", [core, evicting])
def test_no_pod_of_a_template_stays_assumed(make_world: World) -> None:
    """Interrupted in Python between any two lines; where others are evicted, pods come one by one."""
    at = 1
    while True:
        one = make_world()
        template = pod("t", requests={"cpu": "1"}, priority=1)
        if not struck(lambda one=one, template=template: one.schedule_by_template(template, 3), at):  # type: ignore[misc]
            break
        check_usage(one)
        assert one.cache.state.assumed_pods() == []
        one.run()
        one.run()
        check_settled(one)
        at += 11
    assert at > 50
