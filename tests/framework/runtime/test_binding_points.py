"""Reserve, Permit, PreBind, Bind and PostBind: control flow and texts of kube-scheduler v1.36's runtime."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.doors.engine import Parallelizer, pre_bind_groups
from tests.framework.make import (
    ERROR,
    SKIPPED,
    UNSCHEDULABLE,
    WAIT,
    framework,
    make,
    said,
    status,
)
from tests.make import pod

from moorage.engine.framework import (
    Code,
    CycleState,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Status,
)

POD = pod("p", on="a")
WAITING = "one or more plugins asked to wait and no plugin rejected pod"


def noting(log: list[str], text: str, answer: Any = None) -> Any:
    """A method that writes a text down and answers."""

    def method(self: Any, *arguments: Any) -> Any:
        log.append(text)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return method


# ---- Reserve -----------------------------------------------------------------------------------------------


def reserving(log: list[str], name: str, answer: Any = None) -> Any:
    unreserve = noting(log, f"unreserve {name}", ValueError("boom") if name == "B" else None)
    return make(ReservePlugin, name, reserve=noting(log, f"reserve {name}", answer), unreserve=unreserve)


def test_a_state_says_whether_its_pod_was_reserved() -> None:
    answers = iter([None, status(ERROR, "no")])
    plugin = make(ReservePlugin, "A", reserve=lambda self, state, pod, node: next(answers))
    one, state = framework(plugin), CycleState()
    assert not state.reserved
    assert one.run_reserve_plugins_reserve(state, POD, "a") is None
    assert state.reserved
    assert one.run_reserve_plugins_reserve(state, POD, "a") is not None
    assert not state.reserved


def test_unreserve_is_for_every_plugin_in_reverse() -> None:
    log: list[str] = []
    one = framework(*(reserving(log, name) for name in "ABC"))  # B raises; the others are asked too
    one.run_reserve_plugins_unreserve(CycleState(), POD, "a")
    assert log == ["unreserve C", "unreserve B", "unreserve A"]


# ---- Permit ------------------------------------------------------------------------------------------------


def permit(*answers: Any) -> tuple[Status | None, dict[str, float]]:
    plugins = [make(PermitPlugin, f"P{at}", permit=answer) for at, answer in enumerate(answers)]
    return framework(*plugins).run_permit_plugins(CycleState(), POD, "a")


def test_waiting_times_are_per_plugin_and_at_most_15_minutes() -> None:
    answer, timeouts = permit(
        (status(WAIT, "one"), 10), None, (status(WAIT, "two"), 3600), status(WAIT, "three")
    )
    assert timeouts == {"P0": 10, "P2": 900, "P3": 900}
    assert said(answer) == (WAIT, f"three, {WAITING}", "")  # the last one's
    answer, timeouts = permit((status(WAIT), 10), status(UNSCHEDULABLE, "no"))
    assert (said(answer), timeouts) == ((UNSCHEDULABLE, "no", "P1"), {})


def test_the_handle_rejects_waiting_pods() -> None:
    one = framework()
    waiting = one.add_waiting_pod(POD, {"P": 10}, 0)
    assert one.handle.reject_waiting_pod("p")
    assert not one.handle.reject_waiting_pod("p")
    assert not one.handle.reject_waiting_pod("unknown")
    assert said(waiting.signal) == (UNSCHEDULABLE, "removed", "")
    seen: list[Any] = []
    one.handle.iterate_over_waiting_pods(seen.append)
    assert seen == [waiting]


# ---- PreBind -----------------------------------------------------------------------------------------------

ALONE, PARALLEL = PreBindPreFlightResult(), PreBindPreFlightResult(allow_parallel=True)


def flight(*answers: Any) -> tuple[Status | None, CycleState]:
    plugins = [make(PreBindPlugin, f"P{at}", pre_bind_pre_flight=answer) for at, answer in enumerate(answers)]
    state = CycleState()
    return framework(*plugins).run_pre_bind_pre_flights(state, POD, "a"), state


def test_pre_flight_is_a_success_where_somebody_has_something_to_do() -> None:
    assert said(flight()[0]) == (SKIPPED, "", "")
    assert said(flight(status(SKIPPED), (PARALLEL, status(SKIPPED)))[0]) == (SKIPPED, "", "")
    answer, state = flight(status(SKIPPED), (PARALLEL, None), PARALLEL, (ALONE, status(Code.SUCCESS)), None)
    assert answer is None
    assert state.skip_pre_bind_plugins == {"P0"}
    assert state.parallel_pre_bind_plugins == {"P1", "P2"}


@pytest.mark.parametrize(
    ("plugins", "groups"),
    [
        ("A B C", "A|B|C"),
        ("Ap Bp C", "AB|C"),
        ("Ap B Cp Dp", "A|B|CD"),
        ("Ap Bps Cp", "AC"),  # one that is skipped and allows it parts nobody
        ("Ap Bs Cp", "A|C"),
        ("As Bps", ""),
    ],
)
def test_neighbours_that_allow_it_are_a_group(plugins: str, groups: str) -> None:
    state, made = CycleState(), []
    for text in plugins.split():
        made.append(make(PreBindPlugin, text[0]))
        if "p" in text:
            state.parallel_pre_bind_plugins.add(text[0])
        if "s" in text:
            state.skip_pre_bind_plugins.add(text[0])
    found = pre_bind_groups(made, state)
    assert "|".join("".join(plugin.name for plugin in group) for group in found) == groups


def binding(log: list[str], *answers: Any, parallel: bool = False) -> Any:
    flights = PARALLEL if parallel else None
    plugins = [
        make(PreBindPlugin, f"P{at}", pre_bind=noting(log, f"P{at}", answer), pre_bind_pre_flight=flights)
        for at, answer in enumerate(answers)
    ]
    return framework(*plugins)


def test_what_has_not_begun_when_a_group_fails_does_not_begin() -> None:
    log: list[str] = []
    one, state = binding(log, status(ERROR, "no"), None, parallel=True), CycleState()
    one.run_pre_bind_pre_flights(state, POD, "a")
    assert said(one.run_pre_bind_plugins(state, POD, "a")) == (ERROR, 'running PreBind plugin "P0": no', "")
    assert log == ["P0"]


def test_with_several_workers_a_group_runs_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=60)  # raises unless both come

    def pre_bind(self: Any, *arguments: Any) -> None:
        meeting.wait()

    plugins = [make(PreBindPlugin, n, pre_bind=pre_bind, pre_bind_pre_flight=PARALLEL) for n in "AB"]
    one, state = framework(*plugins), CycleState()
    one.handle.parallelizer = Parallelizer(2)
    one.run_pre_bind_pre_flights(state, POD, "a")
    assert one.run_pre_bind_plugins(state, POD, "a") is None


# ---- Bind and PostBind -------------------------------------------------------------------------------------


def test_post_bind_is_for_all() -> None:
    log: list[str] = []
    plugins = [
        make(PostBindPlugin, n, post_bind=noting(log, n, ValueError("x") if n == "A" else None)) for n in "AB"
    ]
    framework(*plugins).run_post_bind_plugins(CycleState(), POD, "a")
    assert log == ["A", "B"]
