"""A clock that fails: one error that names it, and a scheduler that goes on once the clock does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.framework.make import make
from tests.make import node, pod
from tests.scheduler.make import Clock, profile_with
from tests.scheduler.transactions.interrupts import check_settled, check_usage

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Code, Status
from moorage.errors import ClockError

World = Callable[[Any], Scheduler]
NO_TIMES = [float("nan"), float("inf"), -float("inf"), 2e12, 10**400, None, "5", 1j]


class Broken(Clock):
    """Raises, or tells what is no time, from one call on until it is mended."""

    def __init__(self, says: Any = None) -> None:
        super().__init__()
        self.says = says
        self.left = 1 << 30

    def __call__(self) -> Any:
        self.left -= 1
        if self.left >= 0:
            return self.now
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.mark.parametrize("says", NO_TIMES)
def test_what_is_no_time_of_a_clock_is_refused(says: Any) -> None:
    with pytest.raises(ClockError, match=r"^clock must return a number of seconds up to 1e\+12, not .*$"):
        Scheduler(clock=lambda: says)


def test_a_clock_that_raises() -> None:
    def clock() -> float:
        raise OSError("no battery")

    with pytest.raises(ClockError, match=r"^clock raised OSError: no battery$") as caught:
        Scheduler(clock=clock)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_clock_that_fails_as_pods_come_costs_one_of_them() -> None:
    clock = Broken(OSError("no battery"))
    scheduler = Scheduler(clock=clock)
    for name in "abcd":
        scheduler.client.create(pod(name))
    clock.left = 4  # two for each pod
    with pytest.raises(ClockError):
        scheduler.sync()
    clock.left = 1 << 30
    scheduler.sync()
    assert [info.pod.name for info in scheduler.queue.pending_pods().active] == ["a", "b", "d"]


def core(clock: Any) -> Scheduler:
    """Pods that the core places in one go, one that fits nowhere, and some that others must go for."""
    low = [pod(f"low{at}", "ab"[at % 2], requests={"cpu": "1"}) for at in range(4)]
    high = [pod(f"h{at}", requests={"cpu": "2"}, priority=10) for at in range(2)]
    others = [pod("big", requests={"cpu": "64"}), *(pod(f"p{at}") for at in range(3))]
    nodes = [node("a", cpu="2"), node("b", cpu="2")]
    return Scheduler(mo.Cluster(nodes=nodes, pods=[*low, *high, *others]), clock=clock)


def waiting(clock: Any) -> Scheduler:
    """Pods that wait on Permit."""
    late = make(mo.PermitPlugin, "Late", permit=(Status(Code.WAIT), 10.0))
    pods = [pod(f"p{at}") for at in range(2)]
    return Scheduler(mo.Cluster(nodes=[node("a")], pods=pods), profile=profile_with(late), clock=clock)


@pytest.mark.parametrize("make_world", [core, waiting])
@pytest.mark.parametrize("says", [OSError("no battery"), float("nan")])
def test_a_run_that_the_clock_ends_loses_nothing(make_world: World, says: Any) -> None:
    expected = make_world(Clock())
    expected.run()
    at = 0
    while True:
        clock = Broken(says)
        one = make_world(clock)
        clock.left = at
        try:
            one.run()
        except ClockError:
            pass
        else:
            break
        check_usage(one)
        clock.left = 1 << 30
        check_settled(one)
        one.run()
        one.run()
        check_settled(one)
        assert one.table.requested["cpu"].tolist() == expected.table.requested["cpu"].tolist()
        at += 1
    assert at > 3
