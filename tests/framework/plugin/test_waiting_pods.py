"""Pods that wait on Permit: timers, Allow, Reject, the first signal wins."""

from __future__ import annotations

import threading
from itertools import chain, repeat
from typing import Any

import pytest
from tests.doors.engine import WaitingPods
from tests.framework.make import ERROR, UNSCHEDULABLE, said
from tests.make import pod

from moorage.engine.framework import Code, Status, WaitingPod

TIMEOUT = "rejected due to timeout after waiting {} at plugin {}"


def waiting(now: float = 100.0, **timeouts: float) -> WaitingPod:
    return WaitingPod(pod("p"), timeouts, now)


def test_every_plugin_must_allow() -> None:
    one = waiting(a=10, b=20)
    assert one.get_pending_plugins() == ["a", "b"]
    one.allow("a")
    assert (one.get_pending_plugins(), one.signal) == (["b"], None)
    one.allow("unknown")
    assert one.signal is None
    one.allow("b")
    assert one.signal == Status(Code.SUCCESS)


def test_a_plugin_goes_by_its_name() -> None:
    one = waiting(a=10)
    plugin: Any = object()
    for decide in (one.allow, lambda given: one.reject(given, "no"), lambda given: one.preempt(given, "no")):
        with pytest.raises(TypeError, match=r"^plugin must be a string, not object$"):
            decide(plugin)
    assert (one.get_pending_plugins(), one.signal) == (["a"], None)


def test_the_shortest_timer_decides() -> None:
    one = waiting(a=20, b=10.5)
    assert one.deadline() == 110.5
    assert not one.expire(110.4)
    assert one.expire(110.5)
    assert said(one.signal) == (UNSCHEDULABLE, TIMEOUT.format("10.5s", "b"), "b")
    assert not one.expire(1000)


def test_a_plugin_that_has_allowed_has_no_timer() -> None:
    one = waiting(a=10, b=900)
    one.allow("a")
    assert not one.expire(200)
    assert one.expire(1000)
    assert said(one.signal) == (UNSCHEDULABLE, TIMEOUT.format("15m0s", "b"), "b")


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_to_wait_rejects_at_once(seconds: float) -> None:
    one = waiting(a=seconds)
    assert said(one.signal) == (UNSCHEDULABLE, TIMEOUT.format(f"{seconds}s", "a"), "a")


def test_the_first_signal_wins() -> None:
    one = waiting(a=10, b=10)
    assert one.reject("a", "no")
    assert not one.reject("y", "no again")
    assert not one.preempt("y", "preempted")
    assert one.get_pending_plugins() == ["a", "b"], "a rejection does not clear them"
    one.allow("a")
    assert said(one.signal) == said(one.wait()) == (UNSCHEDULABLE, "no", "a")
    allowed = waiting(a=10)
    allowed.allow("a")
    assert not allowed.reject("x", "no")
    assert allowed.signal == Status(Code.SUCCESS)
    preempted = waiting(a=10)
    assert preempted.preempt("DefaultPreemption", "preempted")
    assert said(preempted.signal) == (ERROR, "preempted", "DefaultPreemption")


def test_a_waiter_in_another_thread() -> None:
    one, answers = waiting(a=10), []
    thread = threading.Thread(target=lambda: answers.append(one.wait()))
    thread.start()
    one.allow("a")
    thread.join(60)
    assert answers == [Status(Code.SUCCESS)]


def test_a_waiter_with_a_clock_lets_the_timers_fire() -> None:
    times = chain([105.0, 109.9999], repeat(110.0))
    assert said(waiting(a=10).wait(lambda: next(times))) == (UNSCHEDULABLE, TIMEOUT.format("10s", "a"), "a")


def test_the_pods_that_wait() -> None:
    """Pods can be decided while they are listed; a second one of a UID takes the place of the first."""
    pods = WaitingPods()
    first, second = WaitingPod(pod("p"), {"a": 30}, 0), WaitingPod(pod("q"), {"a": 10}, 0)
    pods.add(first)
    pods.add(second)
    seen: list[WaitingPod] = []
    pods.iterate(lambda one: (seen.append(one), one.allow("a")))
    assert seen == [first, second]
    assert first.signal == Status(Code.SUCCESS)
    assert pods.get("q") is second
    assert pods.get("x") is None
    pods.remove("q")
    pods.remove("q")
    pods.add(again := waiting(a=10))
    assert (pods.get("p"), len(pods)) == (again, 1)


def test_whoever_wants_to_know_is_told_once() -> None:
    one, told = waiting(a=10), []
    one.when_decided(lambda: told.append("first"))
    one.reject("a", "no")
    one.reject("a", "no")
    assert told == ["first"]
    one.when_decided(lambda: told.append("late"))
    assert told == ["first", "late"]
