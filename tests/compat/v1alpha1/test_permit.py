"""The permit point: who is asked, how long it blocks, and the signals to pods that wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Condition
from typing import Any

import pytest
from tests.compat.v1alpha1.world import (
    Acquiring,
    Log,
    Permitting,
    ScriptedClock,
    VirtualClock,
    framework,
    plugin,
    wait,
)
from tests.make import pod

from moorage.compat.v1alpha1 import (
    Code,
    Error,
    Framework,
    MonotonicClock,
    NewPluginContext,
    NewStatus,
    Status,
    Success,
    Unschedulable,
    Wait,
    WaitingPod,
)

POD = pod("p")


def permit(run: Framework, of: Any = POD) -> Status | None:
    return run.RunPermitPlugins(NewPluginContext(), of, "a")


def timed_out(after: str) -> Status:
    return NewStatus(Unschedulable, f"pod p rejected due to timeout after waiting {after} at permit")


def found(run: Framework) -> WaitingPod:
    waiting = run.GetWaitingPod("p")
    assert waiting is not None
    return waiting


def waiting_for(act: Callable[[WaitingPod], object]) -> tuple[Framework, Status | None]:
    """A framework whose only pod waited, and what became of it; instead of sleeping, an act is done to it."""
    clock = ScriptedClock()
    run = framework(plugin("x", Permit=wait(10)), clock=clock)
    clock.acts = [lambda: act(found(run))]
    return run, permit(run)


def ten_seconds() -> tuple[VirtualClock, Framework]:
    """A framework whose pods wait for ten seconds of a clock."""
    clock = VirtualClock()
    return clock, framework(plugin("x", Permit=wait(10)), clock=clock)


# ---- plugins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [(None, 5.0), (NewStatus(Success, ""), 5.0), (None, math.nan), (None, None)]
)
def test_who_succeeds_does_not_wait_whatever_the_duration(answer: Any) -> None:
    log: Log = []
    clock = ScriptedClock()
    run = framework(plugin("a", log, Permit=answer), plugin("b", log, Permit=answer), clock=clock)
    assert permit(run) is None
    assert ([name for name, *_ in log], clock.until) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Unschedulable, "rejected by bad at permit: no room"),
        (Error, "error while running bad permit plugin for pod p: no room"),
        (17, "error while running bad permit plugin for pod p: no room"),
    ],
)
def test_a_plugin_that_rejects_ends_the_run_even_after_a_wait(code: Code, text: str) -> None:
    log: Log = []
    clock = ScriptedClock()
    run = framework(
        plugin("first", log, Permit=wait(3.0)),
        plugin("bad", log, Permit=(NewStatus(code, "no room"), 1.0)),
        plugin("late", log, Permit=(None, 0.0)),
        clock=clock,
    )
    assert permit(run) == NewStatus(Unschedulable if code == Unschedulable else Error, text)
    assert ([name for name, *_ in log], clock.until) == (["first", "bad"], [])


def test_the_remaining_plugins_run_before_it_waits() -> None:
    log: Log = []
    clock = ScriptedClock()

    def late(pc: Any, p: Any, node_name: str) -> Any:
        assert (run.GetWaitingPod("p"), clock.until) == (None, [])
        return None, 0.0

    asks = NewStatus(3, "")
    run = framework(plugin("asks", log, Permit=(asks, 3.0)), plugin("late", log, Permit=late), clock=clock)
    assert (permit(run), int(Wait)) == (timed_out("3s"), 3)
    assert [name for name, *_ in log] == ["asks", "late"]


# ---- timeout ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "seconds", "text"),
    [
        ([wait(1.5)], 1.5, "1.5s"),
        ([wait(60), wait(0.1), wait(30)], 0.1, "100ms"),
        ([wait(20), (None, 5.0)], 20, "20s"),
        ([(None, 5.0), wait(20)], 20, "20s"),
        ([wait(900)], 900, "15m0s"),
        ([wait(3600)], 900, "15m0s"),
        ([wait(math.inf)], 900, "15m0s"),
        ([wait(math.nan)], 900, "15m0s"),
        ([wait(3600), wait(100)], 100, "1m40s"),
    ],
)
def test_it_waits_for_the_shortest_timeout_and_for_15_minutes_at_most(
    answers: list[Any], seconds: float, text: str
) -> None:
    clock = ScriptedClock()
    run = framework(*(plugin(f"x{i}", Permit=answer) for i, answer in enumerate(answers)), clock=clock)
    assert permit(run) == timed_out(text)
    assert clock.until == [pytest.approx(seconds)]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (-1.5, "-1.5s"), (-math.inf, "-2562047h47m16.854775808s")]
)
def test_a_timeout_of_nothing_is_over_at_once(seconds: float, text: str) -> None:
    clock = ScriptedClock()
    run = framework(plugin("x", Permit=wait(seconds)), clock=clock)
    assert permit(run) == timed_out(text)
    assert clock.until == []


def test_the_thread_blocks_until_the_time_is_over() -> None:
    clock, run = ten_seconds()
    blocked = Permitting(run, clock, POD)
    clock.advance(9.5)
    assert clock.blocked.acquire(timeout=60)  # it woke up, and sleeps again
    assert blocked.answers == []
    clock.advance(0.5)
    assert blocked.result() == timed_out("10s")


def test_by_default_the_clock_is_the_machines() -> None:
    assert permit(framework(plugin("x", Permit=wait(0.001)))) == timed_out("1ms")
    clock, condition = MonotonicClock(), Condition()
    before = time.monotonic()
    with condition:
        clock.wait(condition, before + 0.001)
        clock.wait(condition, before)
    assert before + 0.001 <= clock.now() <= time.monotonic()


# ---- signals ---------------------------------------------------------------------------------------------


def test_one_allow_is_enough_for_all_who_asked_to_wait() -> None:
    clock = ScriptedClock(lambda: found(run).Allow())
    run = framework(*(plugin(name, Permit=wait(5)) for name in "abc"), clock=clock)
    assert permit(run) is None
    assert clock.until == [5]


@pytest.mark.parametrize("first", ["Allow", "Reject", "nothing"])
def test_one_signal_is_delivered_and_later_ones_are_not(first: str) -> None:
    answers: list[bool] = []
    kept: list[WaitingPod] = []

    def signal(waiting: WaitingPod) -> None:
        kept.append(waiting)
        if first != "nothing":
            answers.append(waiting.Allow() if first == "Allow" else waiting.Reject("first"))
            answers.extend([waiting.Allow(), waiting.Reject("second"), waiting.Allow()])

    run, result = waiting_for(signal)
    assert answers == ([] if first == "nothing" else [True, False, False, False])
    rejected = NewStatus(Unschedulable, "rejected while waiting at permit: first")
    assert result == {"Allow": None, "Reject": rejected, "nothing": timed_out("10s")}[first]
    assert (kept[0].Allow(), kept[0].Reject("late"), kept[0].GetPod()) == (False, False, POD)
    assert run.GetWaitingPod("p") is None


def test_no_signal_is_delivered_when_the_time_is_over_even_if_the_waiter_sleeps_on() -> None:
    answers: list[bool] = []
    clock = ScriptedClock()

    def late() -> None:
        clock.time += 10.0
        answers.extend([found(run).Allow(), found(run).Reject("late")])

    run = framework(plugin("x", Permit=wait(10)), clock=clock)
    clock.acts = [late]
    assert permit(run) == timed_out("10s")
    assert answers == [False, False]


def test_a_signal_in_time_counts_even_if_the_waiter_wakes_up_late() -> None:
    clock = ScriptedClock()

    def in_time() -> None:
        clock.time += 9.0
        assert found(run).Allow()
        clock.time += 9.0

    run = framework(plugin("x", Permit=wait(10)), clock=clock)
    clock.acts = [in_time]
    assert permit(run) is None


def test_a_waiter_that_wakes_up_for_nothing_sleeps_on() -> None:
    clock = ScriptedClock()
    run = framework(plugin("x", Permit=wait(10)), clock=clock)
    clock.acts = [lambda: None, lambda: setattr(clock, "time", clock.time + 4), lambda: None]
    assert permit(run) == timed_out("10s")
    assert clock.until == [10, 10, 6, 6]


@pytest.mark.parametrize(
    ("signal", "result"),
    [
        (lambda waiting: waiting.Allow(), None),
        (
            lambda waiting: waiting.Reject("no"),
            NewStatus(Unschedulable, "rejected while waiting at permit: no"),
        ),
    ],
)
def test_a_signal_from_another_thread_wakes_the_waiter(
    signal: Callable[[WaitingPod], bool], result: Status | None
) -> None:
    clock, run = ten_seconds()
    blocked = Permitting(run, clock, POD)
    assert blocked.answers == []
    assert signal(found(run))
    assert blocked.result() == result
    assert run.GetWaitingPod("p") is None


# ---- the waiting pods ------------------------------------------------------------------------------------


def test_iteration_meets_all_pods_that_wait_and_they_leave_after_it() -> None:
    clock, run = ten_seconds()
    blocked = {name: Permitting(run, clock, pod(name)) for name in ("p", "q", "r")}
    seen: list[str] = []

    def allow(waiting: WaitingPod) -> None:
        uid = waiting.GetPod().metadata.uid
        seen.append(uid)
        assert uid == "r" or waiting.Allow()
        assert run.GetWaitingPod(uid) is waiting

    run.IterateOverWaitingPods(allow)
    assert (seen, blocked["p"].result(), blocked["q"].result()) == (["p", "q", "r"], None, None)
    seen.clear()
    run.IterateOverWaitingPods(allow)
    clock.advance(10)
    assert (seen, Status.Code(blocked["r"].result())) == (["r"], Unschedulable)


def test_an_iteration_holds_a_read_lock() -> None:
    """Who looks for a pod does not wait for it, nor for a writer that does."""
    clock, run = ten_seconds()
    blocked = Permitting(run, clock, POD)
    lock = run._waiting._lock
    writers: list[Acquiring] = []

    def look(waiting: WaitingPod) -> None:
        writers.append(Acquiring(lock, lock.Lock))
        assert not writers[0].acquired()
        asked = [Acquiring(lock, lambda: run.GetWaitingPod("p")).acquires(), found(run)]
        assert asked == [True, waiting]

    run.IterateOverWaitingPods(look)
    assert writers[0].acquires()
    lock.Unlock()
    assert found(run).Allow()
    assert blocked.result() is None


def test_an_iteration_that_fails_leaves_the_waiting_pods_free() -> None:
    clock, run = ten_seconds()
    blocked = Permitting(run, clock, POD)

    def fail(waiting: WaitingPod) -> None:
        raise ValueError("stop")

    with pytest.raises(ValueError, match=r"^stop$"):
        run.IterateOverWaitingPods(fail)
    assert found(run).Allow()
    assert blocked.result() is None


def test_of_two_pods_with_one_uid_the_later_is_found() -> None:
    clock, run = ten_seconds()
    first = Permitting(run, clock, POD)
    waiting = found(run)
    second = Permitting(run, clock, pod("p"))
    assert found(run) is not waiting
    assert found(run).Allow()
    assert second.result() is None
    assert waiting.Reject("twice")
    assert first.result() == NewStatus(Unschedulable, "rejected while waiting at permit: twice")


def test_a_pod_can_wait_again() -> None:
    clock = ScriptedClock(lambda: found(run).Reject("no"), lambda: found(run).Allow())
    run = framework(plugin("x", Permit=wait(10)), clock=clock)
    assert Status.Code(permit(run)) == Unschedulable
    assert permit(run) is None
