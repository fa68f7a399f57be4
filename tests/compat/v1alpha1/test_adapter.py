"""Plugins of v1alpha1 in today's framework."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.compat.v1alpha1.world import Log, plugin, wait
from tests.doors.engine import interface as today
from tests.make import pod
from tests.scheduler.make import scheduler_with

from moorage.compat.v1alpha1 import (
    Code,
    Error,
    FrameworkError,
    NewStatus,
    Success,
    Unschedulable,
    Wait,
    adapt,
    adapt_factory,
)
from moorage.engine.framework import CycleState as State

POD = pod("p")
POINTS = ("reserve", "unreserve", "permit", "pre_bind")


def adapted(**answers: Any) -> Any:
    return adapt(plugin("x", **answers))


@pytest.mark.parametrize(
    ("answers", "methods", "points"),
    [
        ({}, (), ()),
        ({"Reserve": None}, ("reserve", "unreserve"), ("reserve",)),
        ({"Unreserve": None}, ("reserve", "unreserve"), ("reserve",)),
        ({"Permit": (None, 0.0)}, ("permit",), ("permit",)),
        ({"Prebind": None}, ("pre_bind",), ("preBind",)),
        (
            {"Reserve": None, "Unreserve": None, "Permit": (None, 0.0), "Prebind": None},
            POINTS,
            ("reserve", "permit", "preBind"),
        ),
    ],
)
def test_it_has_the_points_of_its_plugin(
    answers: dict[str, Any], methods: tuple[str, ...], points: tuple[str, ...]
) -> None:
    one = adapted(**answers)
    assert (one.name, one.extension_points) == ("x", points)
    assert tuple(point for point in POINTS if hasattr(one, point)) == methods
    assert isinstance(one, today.Plugin)


@pytest.mark.parametrize(
    ("code", "now"),
    [
        (Success, today.Code.SUCCESS),
        (Error, today.Code.ERROR),
        (Unschedulable, today.Code.UNSCHEDULABLE),
        (Wait, today.Code.WAIT),
        (17, today.Code.ERROR),
    ],
)
def test_codes_are_todays(code: Code, now: today.Code) -> None:
    for message, reasons in (("why", ("why",)), ("", ())):
        status, expected = NewStatus(code, message), today.Status(now, reasons)
        one = adapted(Reserve=status, Permit=(status, 1.5), Prebind=status)
        assert one.pre_bind(State(), POD, "a") == expected
        assert one.permit(State(), POD, "a") == (expected, 1.5 if code == Wait else 0.0)
        failed = expected if code == Success else today.Status(today.Code.ERROR, reasons)
        assert one.reserve(State(), POD, "a") == failed


@pytest.mark.parametrize("answer", [None, "no"])
def test_none_stays_none_and_what_is_no_status_is_left_for_todays_framework_to_refuse(answer: Any) -> None:
    one = adapted(Reserve=answer, Permit=(answer, 2.0), Prebind=answer)
    assert one.reserve(State(), POD, "a") is one.pre_bind(State(), POD, "a") is answer
    assert one.permit(State(), POD, "a") == (answer, 0.0)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [(wait(3), 3), (wait(3600), 900), (wait(math.nan), 900), ((None, 3), 0), ((None, None), 0)],
)
def test_how_long_counts_for_who_waits_and_15_minutes_are_most(answer: Any, seconds: float) -> None:
    assert adapted(Permit=answer).permit(State(), POD, "a")[1] == seconds


def test_pre_bind_always_runs_and_alone() -> None:
    assert adapted(Prebind=None).pre_bind_pre_flight(State(), POD, "a") is None
    assert not hasattr(adapted(Reserve=None), "pre_bind_pre_flight")


def test_its_plugin_is_called_with_pod_and_node_for_what_it_has() -> None:
    log: Log = []
    answers = {"Reserve": None, "Unreserve": None, "Permit": (None, 0.0), "Prebind": None}
    every, clears, reserves = (
        adapt(plugin(name, log, **{point: answers[point] for point in has}))
        for name, has in (("x", answers), ("u", ["Unreserve"]), ("r", ["Reserve"]))
    )
    state = State()
    state.reserved = True
    for point in POINTS:
        getattr(every, point)(state, POD, "a")
    assert log == [("x", point, "p", "a") for point in ("Reserve", "Unreserve", "Permit", "Prebind")]
    log.clear()
    reserves.unreserve(state, POD, "a")
    assert (clears.reserve(State(), POD, "a"), log) == (None, [])


def test_the_plugins_of_a_cycle_share_one_context_and_cycles_do_not() -> None:
    contexts: list[Any] = []

    def note(pc: Any, p: Any, node_name: str) -> None:
        contexts.append(pc)

    first, second = adapted(Reserve=note, Unreserve=note), adapted(Prebind=note)
    cycle, other = State(), State()
    cycle.reserved = True
    first.reserve(cycle, POD, "a")
    second.pre_bind(cycle, POD, "a")
    first.unreserve(cycle.clone(), POD, "a")
    first.reserve(other, POD, "a")
    assert contexts[0] is contexts[1] is contexts[2]
    assert contexts[3] is not contexts[0]


class Counting:
    def __init__(self, reserved: int = 0) -> None:
        self.reserved = reserved

    def Name(self) -> str:
        return "Counting"

    def Reserve(self, pc: Any, pod: Any, node_name: str) -> None:
        self.reserved += 1

    def save(self) -> int:
        return self.reserved

    def undo(self, saved: int) -> None:
        self.reserved = saved

    def clone(self) -> Counting:
        return Counting(self.reserved)


def test_its_plugin_takes_part_in_transactions_and_forks() -> None:
    counting = Counting()
    one = scheduler_with(adapt(counting), pods=[POD])
    with one.transaction():
        one.run()
        assert counting.reserved == 1
    assert counting.reserved == 0
    fork = one.fork()
    fork.run()
    adapted: Any = fork.profile.plugins[-1]
    assert (counting.reserved, adapted.plugin.reserved) == (0, 1)


def test_what_has_no_name_is_no_plugin() -> None:
    with pytest.raises(FrameworkError, match=r"^7 has no Name$"):
        adapt(7)  # type: ignore[arg-type]
    with pytest.raises(FrameworkError, match=r"^7 has no Name$"):
        adapt_factory(lambda configuration, handle: 7)()  # type: ignore[arg-type, return-value]
