"""Pods that wait on Permit while the scheduler goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.framework.make import WAIT, status
from tests.make import pod
from tests.scheduler.make import Clock, events, scheduler_with
from tests.scheduler.steps import KEY, Steps, is_free

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import Code
from moorage.kube import Pod


def gang(clock: Clock, seconds: float = 10, pods: int = 2, **answers: Any) -> tuple[Scheduler, Steps]:
    steps = Steps(permit=(status(WAIT, "for the others"), seconds), **answers)
    names = [pod(f"p{at}" if at else "p", requests={"cpu": 3}) for at in range(pods)]
    return scheduler_with(steps, pods=names, clock=clock), steps


def test_a_waiting_pod_does_not_hold_up_the_next() -> None:
    one, steps = gang(Clock())
    result = one.run()
    assert result.waiting == {KEY: "a", "default/p1": "b"}  # the assumed pod counts for the next one
    assert result.placements == result.unschedulable == {}
    assert [step for step in steps.log if "bind" in step] == []
    assert one.cache.is_assumed_pod(pod("p"))
    assert one.run().waiting == {}  # pods that are assumed are not tried again
    assert one.advance().waiting == {KEY: "a", "default/p1": "b"}


def test_allowing_lets_them_be_bound() -> None:
    one, steps = gang(Clock())
    one.run()
    one.handle.iterate_over_waiting_pods(lambda waiting: waiting.allow("Steps"))
    result = one.advance()
    assert result.placements == {KEY: "a", "default/p1": "b"}
    assert result.waiting == {}
    assert one.client.get(Pod, "p", "default").spec.node_name == "a"
    assert steps.log[-2:] == ["pre_bind p1 b", "post_bind p1 b"]
    assert one.handle.get_waiting_pod("p") is None
    assert one.advance().placements == {}


class Pair(mo.PermitPlugin):
    name = "Pair"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        assert self.handle is not None
        if pod.name == "p":
            return status(WAIT), 10
        self.handle.iterate_over_waiting_pods(lambda waiting: waiting.allow("Pair"))
        return None


def test_a_pod_allowed_by_the_next_one_is_bound_in_the_same_run() -> None:
    one = scheduler_with(Pair(), pods=[pod("p"), pod("q")])
    result = one.run()
    assert set(result.placements) == {KEY, "default/q"}
    assert result.waiting == {}


@pytest.mark.parametrize("is_stored", [True, False])
def test_given_pods_wait_too_also_those_that_the_store_gets_then(is_stored: bool) -> None:
    given = [pod("p"), pod("q")]
    one = scheduler_with(Steps(permit=(status(WAIT), 10)), pods=given if is_stored else [])
    result = one.schedule_pods([*one.pods.pending.values()] if is_stored else given)
    assert (result.rows.tolist(), result.waiting) == ([-1, -1], {KEY: "a", "default/q": "b"})
    assert result.placements == result.failures == {}
    one.handle.iterate_over_waiting_pods(lambda waiting: waiting.allow("Steps"))
    assert one.advance().placements == {KEY: "a", "default/q": "b"}


def test_a_given_pod_that_the_next_one_allows_is_placed() -> None:
    one = scheduler_with(Pair())
    result = one.schedule_pods([pod("p"), pod("q")])
    assert (result.placements, result.waiting) == ({KEY: "a", "default/q": "b"}, {})


def test_timeouts_by_the_clock() -> None:
    clock = Clock(100)
    one, steps = gang(clock, pods=1)
    one.run()
    clock.now = 109.9
    assert one.advance().waiting == {KEY: "a"}
    clock.now = 110
    result = one.advance()
    text = "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Steps."
    assert result.unschedulable[KEY].message == text
    assert result.waiting == {}
    assert steps.log[-1] == "unreserve p a"
    assert is_free(one)
    assert [event[2] for event in events(one)] == ["FailedScheduling"]
    assert one.run().waiting == {KEY: "a"}  # and is tried again


def test_time_does_not_go_back() -> None:
    """A number of seconds to wait is a time before the pod began to wait."""
    clock = Clock(100)
    one, _ = gang(clock, pods=1)
    with pytest.raises(ValueError, match="has shown 100 s already, so 5 s is past"):
        one.advance(5)  # before any pod waits, and at the first call
    one.run()
    for past in (10, -5, 99.9):
        with pytest.raises(
            ValueError, match=f"has shown 100 s already, so {past} s is past; advance takes a time"
        ):
            one.advance(past)
    assert one.advance(100).waiting == {KEY: "a"}
    assert one.advance(110).unschedulable.keys() == {KEY}
    clock.now = 120
    one.advance()
    with pytest.raises(ValueError, match="has shown 120 s already, so 119 s is past"):
        one.advance(119)


def test_timers_fire_in_their_order() -> None:
    class Waits(mo.PermitPlugin):
        name = "Waits"

        def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
            return status(WAIT), {"p": 30, "q": 10, "r": 20, "s": 99}[pod.name]

    one = scheduler_with(Waits(), pods=[pod(name) for name in "pqrs"], clock=Clock())
    one.run()
    result = one.advance(now=30)
    assert list(result.unschedulable) == ["default/q", "default/r", KEY]
    assert list(result.waiting) == ["default/s"]
    assert list(one.advance(now=99).unschedulable) == ["default/s"]


def test_no_time_to_wait_fails_at_once() -> None:
    one, _ = gang(Clock(), seconds=0, pods=1)
    text = "0/1 nodes are available: 1 rejected due to timeout after waiting 0s at plugin Steps."
    assert one.run().unschedulable[KEY].message == text


def test_a_deleted_waiting_pod_is_taken_back() -> None:
    one, steps = gang(Clock(), pods=1)
    one.run()
    one.client.delete(Pod, "p", "default")
    one.sync()
    assert one.cache.is_assumed_pod(pod("p"))  # its binding cycle forgets it
    result = one.advance()
    assert result.unschedulable[KEY].message == "0/1 nodes are available: 1 removed."
    assert steps.log[-1] == "unreserve p a"
    assert not one.cache.state.has_pod(pod("p"))
    assert one.pods.pending == {}


def test_a_waiting_pod_is_nominated_where_it_is_assumed_until_it_fails() -> None:
    clock = Clock()
    one, _ = gang(clock, pods=1)
    one.run()
    assert one.client.get(Pod, "p", "default").status.nominated_node_name == "a"
    one.advance(now=10)
    assert one.client.get(Pod, "p", "default").status.nominated_node_name == ""


def test_a_waiting_pod_is_not_nominated_without_the_gate() -> None:
    """Nor does PreBindPreFlight run, so that its error is none."""
    gates = {"NominatedNodeNameForExpectation": False}
    steps = Steps(permit=(status(WAIT, "for the others"), 10.0), pre_flight=status(Code.ERROR, "broken"))
    one = scheduler_with(steps, pods=[pod("p")], clock=Clock(), feature_gates=gates)
    assert one.run().waiting == {KEY: "a"}
    assert one.client.get(Pod, "p", "default").status.nominated_node_name == ""
    one.handle.iterate_over_waiting_pods(lambda waiting: waiting.allow("Steps"))
    assert one.advance().placements == {KEY: "a"}
    assert steps.log[-2:] == ["pre_bind p a", "post_bind p a"]


def test_a_pre_flight_error_ends_the_waiting() -> None:
    one, steps = gang(Clock(), pods=1, pre_flight=status(Code.ERROR, "broken"))
    assert one.run().unschedulable[KEY].message == 'running PreBindPreFlight "Steps": broken'
    assert one.handle.get_waiting_pod("p") is None
    assert steps.log[-1] == "unreserve p a"
