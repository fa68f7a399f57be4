"""The registry, how a framework is built, its handle, and the points that do not wait."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.compat.v1alpha1.world import Log, framework, plugin, wait
from tests.make import node, pod

from moorage.compat.v1alpha1 import (
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
from moorage.engine.cache import SchedulerCache

POD = pod("p")
POINTS = ("Reserve", "Prebind", "Permit")


def run(of: Framework, point: str, pc: Any = None) -> Status | None:
    answer: Status | None = getattr(of, f"Run{point}Plugins")(pc or NewPluginContext(), POD, "a")
    return answer


# ---- registry --------------------------------------------------------------------------------------------


def make_x(configuration: object, handle: FrameworkHandle) -> Any:
    return plugin("x")


def test_names_are_registered_once_until_they_are_unregistered() -> None:
    registry = NewRegistry()
    assert (registry, isinstance(registry, Registry)) == ({}, True)
    for _ in range(2):
        registry.Register("x", make_x)
        with pytest.raises(FrameworkError) as caught:
            registry.Register("x", lambda configuration, handle: plugin("other"))
        assert str(caught.value) == "a plugin named x already exists"
        assert registry == {"x": make_x}
        registry.Unregister("x")
        with pytest.raises(FrameworkError) as caught:
            registry.Unregister("x")
        assert str(caught.value) == "no plugin named x exists"


# ---- construction ----------------------------------------------------------------------------------------


def test_every_registered_plugin_is_built_in_order_with_the_handle_and_no_configuration() -> None:
    registry, built = NewRegistry(), []

    def register(name: str) -> None:
        def factory(configuration: object, handle: FrameworkHandle) -> Any:
            built.append((name, configuration, handle))
            return plugin(name, Reserve=NewStatus(Error, "late") if name == "late" else None)

        registry.Register(name, factory)

    register("b")
    register("a")
    made = NewFramework(registry, {"ignored": True})
    register("late")
    assert built == [("b", None, made), ("a", None, made)]
    assert run(made, "Reserve") is None


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


@pytest.mark.parametrize(
    ("answer", "text"), [(ValueError("no zone given"), "no zone given"), (7, "7 has no Name")]
)
def test_a_factory_that_fails_ends_the_construction(answer: Any, text: str) -> None:
    built = []

    def bad(configuration: object, handle: FrameworkHandle) -> Any:
        built.append("bad")
        if isinstance(answer, Exception):
            raise answer
        return answer

    registry = Registry({"good": make_x, "bad": bad, "late": bad})
    with pytest.raises(FrameworkError) as caught:
        NewFramework(registry)
    assert str(caught.value) == f"error initializing plugin bad: {text}"
    assert built == ["bad"]


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


def test_the_snapshot_is_one_object_and_stays_as_it_is_between_updates() -> None:
    made, cache = framework(), SchedulerCache()
    snapshot = made.NodeInfoSnapshot()
    infos = snapshot.NodeInfoMap
    assert (dict(infos), snapshot.Generation) == ({}, 0)
    cache.add_node(node("a"))
    snapshot.Update(cache)
    info, generation = infos["a"], snapshot.Generation
    cache.add_pod(pod("q", on="a", requests={"cpu": 1}))
    cache.add_node(node("b"))
    assert ([held.name for held in info.pods], info.requested.milli_cpu) == ([], 0)
    assert (list(infos), snapshot.Generation) == (["a"], generation)
    snapshot.Update(cache)
    assert (made.NodeInfoSnapshot(), snapshot.NodeInfoMap) == (snapshot, infos)
    assert ([held.name for held in infos["a"].pods], infos["a"].requested.milli_cpu) == (["q"], 1000)
    assert (list(infos), infos["b"].node) == (["a", "b"], node("b"))
    assert snapshot.Generation > generation
    assert snapshot.Generation >= max(each.generation for each in infos.values())


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


# ---- plugins that misbehave --------------------------------------------------------------------------------


REJECTED = "rejected by bad at {}: no room"
NO_ROOM = "error while running bad {} plugin for pod p: no room"
RAISED = 'error while running bad {} plugin for pod p: plugin "bad" raised '
NO_STATUS = "error while running bad {} plugin for pod p: plugin \"bad\" answered 'no', which is no Status"


def read_absent(pc: Any, pod: Any, node_name: str) -> Any:
    return pc.Read("absent")


@pytest.mark.parametrize(
    ("point", "answer", "code", "text"),
    [
        *[
            ("Reserve", NewStatus(code, "no room"), Error, NO_ROOM)
            for code in (Error, Unschedulable, Wait, 17)
        ],
        (
            "Prebind",
            NewStatus(Unschedulable, "no room"),
            Unschedulable,
            "rejected by bad at prebind: no room",
        ),
        *[("Prebind", NewStatus(code, "no room"), Error, NO_ROOM) for code in (Error, Wait, 17)],
        *[(point, "no", Error, NO_STATUS) for point in ("Reserve", "Prebind")],
        ("Permit", ("no", 1.0), Error, NO_STATUS),
        *[(point, ValueError("oops"), Error, RAISED + "ValueError: oops") for point in POINTS],
        *[(point, read_absent, Error, RAISED + "FrameworkError: not found") for point in POINTS],
        *[
            ("Permit", answer, Error, RAISED + "TypeError: ")
            for answer in (None, NewStatus(Success, ""), wait("soon"))  # type: ignore[arg-type]
        ],
    ],
)
def test_a_plugin_that_fails_ends_the_run(point: str, answer: Any, code: Code, text: str) -> None:
    log: Log = []
    good: Any = (None, 0.0) if point == "Permit" else None
    made = framework(
        plugin("good", log, Unreserve=None, **{point: good}),
        plugin("bad", log, Unreserve=None, **{point: answer}),
        plugin("late", log, Unreserve=None, **{point: good}),
    )
    status = run(made, point)
    assert Status.Code(status) == code
    assert Status.Message(status).startswith(text.format(point.lower()))
    assert [(name, called) for name, called, *_ in log] == [("good", point), ("bad", point)]


def test_an_exception_does_not_keep_others_from_unreserving(caplog: pytest.LogCaptureFixture) -> None:
    log: Log = []
    made = framework(plugin("bad", log, Unreserve=ValueError("oops")), plugin("late", log, Unreserve=None))
    run(made, "Unreserve")
    assert [name for name, *_ in log] == ["bad", "late"]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, 'plugin "bad" raised ValueError: oops')
    ]
