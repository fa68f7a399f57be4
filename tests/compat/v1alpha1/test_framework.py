"""The registry, how a framework is built, its handle, and the points that do not wait."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.compat.v1alpha1.world import (
    Log,
    framework,
    plugin,
    wait,
)
from tests.core.make import node, pod
from tests.doors.compat import (
    Code,
    Error,
    Framework,
    FrameworkError,
    FrameworkHandle,
    NewFramework,
    NewPluginContext,
    NewRegistry,
    NewStatus,
    PermitPlugin,
    Plugin,
    PrebindPlugin,
    Registry,
    ReservePlugin,
    Status,
    Success,
    UnreservePlugin,
    Unschedulable,
    Wait,
)

from moorage.cache import SchedulerCache

POD = pod("p")


def run(of: Framework, point: str, pc: Any = None) -> Status | None:
    answer: Status | None = getattr(of, f"Run{point}Plugins")(pc or NewPluginContext(), POD, "a")
    return answer


# ---- registry --------------------------------------------------------------------------------------------


def test_the_default_registry_is_empty() -> None:
    assert NewRegistry() == {}
    assert isinstance(NewRegistry(), Registry)


def test_what_was_registered_is_found_by_its_name() -> None:
    registry = NewRegistry()
    registry.Register("x", lambda configuration, handle: plugin("x"))
    assert registry["x"](None, framework()).Name() == "x"


def test_a_name_is_registered_once() -> None:
    registry = NewRegistry()

    def factory(configuration: object, handle: FrameworkHandle) -> Plugin:
        return plugin("x")

    registry.Register("x", factory)
    with pytest.raises(FrameworkError) as caught:
        registry.Register("x", lambda configuration, handle: plugin("other"))
    assert str(caught.value) == "a plugin named x already exists"
    assert registry == {"x": factory}


def test_what_is_unregistered_is_gone_and_can_be_registered_again() -> None:
    registry = NewRegistry()
    registry.Register("x", lambda configuration, handle: plugin("x"))
    registry.Unregister("x")
    assert registry == {}
    registry.Register("x", lambda configuration, handle: plugin("x"))
    assert list(registry) == ["x"]


def test_an_unknown_name_cannot_be_unregistered() -> None:
    with pytest.raises(FrameworkError) as caught:
        NewRegistry().Unregister("x")
    assert str(caught.value) == "no plugin named x exists"


# ---- construction ----------------------------------------------------------------------------------------


def test_every_registered_plugin_is_built_in_order_with_the_handle_and_no_configuration() -> None:
    registry, built = NewRegistry(), []
    for name in ("b", "a"):

        def factory(configuration: object, handle: FrameworkHandle, name: str = name) -> Plugin:
            built.append((name, configuration, handle))
            return plugin(name)

        registry.Register(name, factory)
    made = NewFramework(registry, {"ignored": True})
    assert built == [("b", None, made), ("a", None, made)]


def test_a_scheduler_may_bring_a_registry_of_its_own() -> None:
    log: Log = []
    registry = Registry({"mine": lambda configuration, handle: plugin("mine", log, Reserve=None)})
    run(NewFramework(registry), "Reserve")
    assert log == [("mine", "Reserve", "p", "a")]


def test_what_is_registered_later_is_not_in_the_framework() -> None:
    log: Log = []
    registry = NewRegistry()
    made = NewFramework(registry)
    registry.Register("late", lambda configuration, handle: plugin("late", log, Reserve=None))
    assert run(made, "Reserve") is None
    assert log == []


def test_a_plugin_joins_the_points_whose_methods_it_has() -> None:
    log: Log = []
    points = {"Reserve": None, "Prebind": None, "Unreserve": None, "Permit": (None, 0.0)}
    some = [plugin(point.lower(), log, **{point: answer}) for point, answer in points.items()]
    made = framework(plugin("none", log), plugin("all", log, **points), *some)
    for point in points:
        run(made, point)
    assert log == [(name, point, "p", "a") for point in points for name in ("all", point.lower())]


def test_the_kinds_of_plugins() -> None:
    kinds = {
        "Reserve": ReservePlugin,
        "Prebind": PrebindPlugin,
        "Unreserve": UnreservePlugin,
        "Permit": PermitPlugin,
    }
    for point in kinds:
        one = plugin("x", **{point: None})
        assert isinstance(one, Plugin)
        assert [name for name, kind in kinds.items() if isinstance(one, kind)] == [point]


def test_a_factory_that_fails_ends_the_construction() -> None:
    registry, built = NewRegistry(), []
    registry.Register("good", lambda configuration, handle: built.append("good") or plugin("good"))

    def bad(configuration: object, handle: FrameworkHandle) -> Plugin:
        raise ValueError("no zone given")

    registry.Register("bad", bad)
    registry.Register("late", lambda configuration, handle: built.append("late") or plugin("late"))
    with pytest.raises(FrameworkError) as caught:
        NewFramework(registry)
    assert str(caught.value) == "error initializing plugin bad: no zone given"
    assert (built, type(caught.value.__cause__)) == (["good"], ValueError)


def test_what_has_no_name_is_no_plugin() -> None:
    registry = Registry({"x": lambda configuration, handle: 7})  # type: ignore[dict-item, return-value]
    with pytest.raises(FrameworkError) as caught:
        NewFramework(registry)
    assert str(caught.value) == "error initializing plugin x: 7 has no Name"


# ---- handle ----------------------------------------------------------------------------------------------


def test_a_plugin_uses_the_handle_that_its_factory_received() -> None:
    class Looking:
        def __init__(self, configuration: object, handle: FrameworkHandle) -> None:
            self.handle = handle

        def Name(self) -> str:
            return "looking"

        def Reserve(self, pc: Any, p: Any, node_name: str) -> Status | None:
            info = self.handle.NodeInfoSnapshot().NodeInfoMap[node_name]
            return NewStatus(Error, f"{len(info.pods)} pods on {info.name}")

    cache = SchedulerCache()
    cache.add_node(node("a"))
    cache.add_pod(pod("q", on="a"))
    made = NewFramework(Registry({"looking": Looking}))
    made.NodeInfoSnapshot().Update(cache)
    assert Status.Message(run(made, "Reserve")).endswith("pod p: 1 pods on a")


def test_the_snapshot_is_one_object_that_is_updated_in_place() -> None:
    made, cache = framework(), SchedulerCache()
    snapshot = made.NodeInfoSnapshot()
    infos = snapshot.NodeInfoMap
    assert (infos, snapshot.Generation) == ({}, 0)
    cache.add_node(node("a"))
    cache.add_node(node("b"))
    snapshot.Update(cache)
    assert made.NodeInfoSnapshot() is snapshot
    assert snapshot.NodeInfoMap is infos
    assert {name: info.node for name, info in infos.items()} == {"a": node("a"), "b": node("b")}
    cache.remove_node(node("a"))
    snapshot.Update(cache)
    assert list(infos) == ["b"]


def test_the_snapshot_stays_as_it_is_between_updates() -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    snapshot = framework().NodeInfoSnapshot()
    snapshot.Update(cache)
    info, generation = snapshot.NodeInfoMap["a"], snapshot.Generation
    cache.add_pod(pod("q", on="a", requests={"cpu": 1}))
    cache.add_node(node("b"))
    assert ([held.name for held in info.pods], info.requested.milli_cpu) == ([], 0)
    assert (list(snapshot.NodeInfoMap), snapshot.Generation) == (["a"], generation)
    snapshot.Update(cache)
    info = snapshot.NodeInfoMap["a"]
    assert ([held.name for held in info.pods], info.requested.milli_cpu) == (["q"], 1000)
    assert snapshot.Generation > generation
    assert snapshot.Generation >= max(each.generation for each in snapshot.NodeInfoMap.values())


def test_a_node_that_left_its_pods_behind_is_not_in_the_snapshot() -> None:
    cache = SchedulerCache()
    cache.add_node(node("a"))
    cache.add_pod(pod("q", on="a"))
    cache.add_pod(pod("early", on="b"))
    snapshot = framework().NodeInfoSnapshot()
    snapshot.Update(cache)
    assert list(snapshot.NodeInfoMap) == ["a"]
    cache.remove_node(node("a"))
    snapshot.Update(cache)
    assert snapshot.NodeInfoMap == {}


# ---- reserve, prebind, unreserve ---------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, NewStatus(Success, ""), NewStatus(Success, "fine")])
@pytest.mark.parametrize("point", ["Reserve", "Prebind"])
def test_all_run_in_order_and_succeed(point: str, answer: Status | None) -> None:
    log: Log = []
    made = framework(*(plugin(name, log, **{point: answer}) for name in "cab"))
    assert run(made, point) is None
    assert [name for name, *_ in log] == ["c", "a", "b"]


@pytest.mark.parametrize("code", [Error, Unschedulable, Wait, 17])
def test_a_reserve_plugin_that_fails_ends_the_run_with_an_error(code: Code) -> None:
    log: Log = []
    rest = {"Unreserve": None}
    made = framework(
        plugin("good", log, Reserve=None, **rest),
        plugin("bad", log, Reserve=NewStatus(code, "no room"), **rest),
        plugin("late", log, Reserve=None, **rest),
    )
    text = "error while running bad reserve plugin for pod p: no room"
    assert run(made, "Reserve") == NewStatus(Error, text)
    assert [(name, point) for name, point, *_ in log] == [("good", "Reserve"), ("bad", "Reserve")]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Unschedulable, NewStatus(Unschedulable, "rejected by bad at prebind: no room")),
        (Error, NewStatus(Error, "error while running bad prebind plugin for pod p: no room")),
        (Wait, NewStatus(Error, "error while running bad prebind plugin for pod p: no room")),
        (17, NewStatus(Error, "error while running bad prebind plugin for pod p: no room")),
    ],
)
def test_a_prebind_plugin_that_fails_ends_the_run(code: Code, result: Status) -> None:
    log: Log = []
    made = framework(
        plugin("good", log, Prebind=None),
        plugin("bad", log, Prebind=NewStatus(code, "no room")),
        plugin("late", log, Prebind=None),
    )
    assert run(made, "Prebind") == result
    assert [name for name, *_ in log] == ["good", "bad"]


def test_unreserve_runs_forward_and_does_not_need_reserve() -> None:
    log: Log = []
    made = framework(
        plugin("c", log, Reserve=None, Unreserve=None),
        plugin("a", log, Unreserve=None),
        plugin("reserves", log, Reserve=None),
        plugin("b", log, Unreserve="whatever it answers"),
    )
    assert run(made, "Unreserve") is None
    assert [(name, point) for name, point, *_ in log] == [(name, "Unreserve") for name in "cab"]


def test_the_plugins_of_a_cycle_share_one_context() -> None:
    pc, seen = NewPluginContext(), []

    def write(pc: Any, pod: Any, node_name: str) -> None:
        pc.Write("note", ["reserved"])

    def alter(pc: Any, pod: Any, node_name: str) -> None:
        pc.Read("note").append("prebound")

    def delete(pc: Any, pod: Any, node_name: str) -> None:
        seen.append(pc.Read("note"))
        pc.Delete("note")

    made = framework(plugin("a", Reserve=write), plugin("b", Prebind=alter), plugin("c", Unreserve=delete))
    for point in ("Reserve", "Prebind", "Unreserve"):
        run(made, point, pc)
    assert seen == [["reserved", "prebound"]]
    with pytest.raises(FrameworkError, match=r"^not found$"):
        pc.Read("note")


# ---- plugins that misbehave --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["Reserve", "Prebind", "Permit"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValueError("oops"), 'plugin "bad" raised ValueError: oops'),
        (lambda pc, pod, node_name: pc.Read("absent"), 'plugin "bad" raised FrameworkError: not found'),
    ],
)
def test_an_exception_is_an_error(point: str, answer: Any, text: str) -> None:
    log: Log = []
    made = framework(plugin("bad", **{point: answer}), plugin("late", log, **{point: None}))
    expected = f"error while running bad {point.lower()} plugin for pod p: {text}"
    assert run(made, point) == NewStatus(Error, expected)
    assert log == []


@pytest.mark.parametrize(("point", "answer"), [("Reserve", "no"), ("Prebind", "no"), ("Permit", ("no", 1.0))])
def test_an_answer_that_is_no_status_is_an_error(point: str, answer: Any) -> None:
    made = framework(plugin("bad", **{point: answer}))
    text = "plugin for pod p: plugin \"bad\" answered 'no', which is no Status"
    assert run(made, point) == NewStatus(Error, f"error while running bad {point.lower()} {text}")


@pytest.mark.parametrize("answer", [None, NewStatus(Success, ""), wait("soon")])  # type: ignore[arg-type]
def test_a_permit_plugin_without_a_duration_is_an_error(answer: Any) -> None:
    status = run(framework(plugin("bad", Permit=answer)), "Permit")
    assert Status.Code(status) == Error
    start = 'error while running bad permit plugin for pod p: plugin "bad" raised TypeError: '
    assert Status.Message(status).startswith(start)


def test_an_exception_does_not_keep_others_from_unreserving(caplog: pytest.LogCaptureFixture) -> None:
    log: Log = []
    made = framework(plugin("bad", log, Unreserve=ValueError("oops")), plugin("late", log, Unreserve=None))
    run(made, "Unreserve")
    assert [name for name, *_ in log] == ["bad", "late"]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, 'plugin "bad" raised ValueError: oops')
    ]
