"""The scheduling queue: order, attempts, backoff and timers (kube-scheduler v1.36, backend/queue)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from moorage.engine.framework import Code, PreEnqueuePlugin, QueueSortPlugin, Status
from moorage.engine.queue import QueuedPodInfo
from tests.doors.engine import on
from tests.framework.make import make
from tests.queue.make import (
    ADD,
    NODE_ADD,
    WANTS_NODES,
    WANTS_NOTHING,
    Clock,
    fail,
    gating,
    make_queue,
    move,
    names,
    places,
    pop,
    queued,
    reject,
    rejecting,
)

# ---- order -------------------------------------------------------------------------------------------------


def test_a_queue_sort_plugin_of_another_order() -> None:
    def less(self: Any, a: Any, b: Any) -> bool:
        return bool(a.pod.name > b.pod.name)

    queue = make_queue(sorter=make(QueueSortPlugin, "Backwards", less=less))
    for name in "bca":
        queue.add([queued(name)])
    queue.delete([queued("b")])
    assert places(queue) == {"active": ["c", "a"]}
    assert [pop(queue).pod.name for _ in range(2)] == ["c", "a"]


@pytest.mark.parametrize(
    ("code", "logged"), [(Code.UNSCHEDULABLE, []), (Code.ERROR, ["pod default/a: PreEnqueue of Gate: no"])]
)
def test_a_gate_that_fails_is_logged(code: Code, logged: list[str], caplog: pytest.LogCaptureFixture) -> None:
    gate = make(PreEnqueuePlugin, "Gate", pre_enqueue=lambda self, one: Status(code, ("no",)))
    queue = make_queue(gate)
    queue.add([queued("a")])
    assert places(queue) == {"gated": ["a"]}
    assert [record.getMessage() for record in caplog.records] == logged


def test_a_pod_that_is_in_flight_already_is_discarded(caplog: pytest.LogCaptureFixture) -> None:
    queue = make_queue()
    queue.add([queued("a")])
    pop(queue)
    queue.add([queued("a")])
    queue.add([queued("b")])
    assert pop(queue).pod.name == "b"
    assert places(queue) == {"in_flight": ["a", "b"]}
    assert "in flight already" in caplog.text


# ---- backoff -----------------------------------------------------------------------------------------------


def test_who_does_not_back_off() -> None:
    assert make_queue().backoff_until(QueuedPodInfo(queued("a"))) is None
    queue = make_queue(WANTS_NODES, max_backoff=0)
    queue.add([queued("a")])
    fail(queue, "Nodes")
    move(queue, NODE_ADD)
    assert places(queue) == {"active": ["a"]}


# ---- timers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_gated_pods_are_asked_again_when_their_time_is_up(version: str) -> None:
    """In v1.37; and they wait anew, so that nothing happens for pods in flight in between."""
    clock, open_for = Clock(), set[str]()
    gate = gating("Gate", lambda one: one.name not in open_for)
    queue = make_queue(gate, WANTS_NOTHING, clock=clock, release=version)
    for name in "gh":
        queue.add([queued(name)])
    infos = queue.pending_pods().gated
    open_for.update("fg")
    clock.advance(301)
    queue.flush_unschedulable_left_over()
    times_out = version == "1.37"
    assert places(queue) == ({"active": ["g"], "gated": ["h"]} if times_out else {"gated": ["g", "h"]})
    assert [info.was_flushed for info in infos] == ([True, False] if times_out else [True, True])
    if times_out:
        reject(queue, pop(queue), "Nothing")
        assert not infos[0].was_flushed
    queue.add([queued("f", 1)])
    assert pop(queue).pod.name == "f"
    clock.advance(299)
    queue.run_periodic(clock())
    assert len(queue.in_flight_events()) == (0 if times_out else 10)
    clock.advance(60)
    queue.run_periodic(clock())
    assert len(queue.in_flight_events()) == (1 if times_out else 12)


def test_next_event_and_run_periodic() -> None:
    clock = Clock(500)
    queue = make_queue(WANTS_NOTHING, WANTS_NODES, clock=clock)
    assert queue.next_event() is None
    queue.add([queued("a")])
    fail(queue, "Nothing")
    assert queue.next_event() == 330.5
    queue.add([queued("b")])
    fail(queue)
    assert queue.next_event() == 2.0
    clock.milliseconds = 1999
    queue.run_periodic(clock())
    assert places(queue) == {"error_backoff": ["b"], "unschedulable": ["a"]}
    clock.milliseconds = 400_000
    queue.run_periodic(clock())
    assert places(queue) == {"active": ["b", "a"]}
    assert queue.next_event() is None
    assert queue.get("b").timestamp == 0.5


def test_run_periodic_does_each_thing_at_its_time() -> None:
    """A pod that a flush moves to the backoff queue is flushed from there by the next one."""
    clock = Clock()
    queue = make_queue(WANTS_NOTHING, clock=clock, initial_backoff=1000.0, max_backoff=1000.0)
    queue.add([queued("a")])
    fail(queue, "Nothing")
    clock.advance(999)
    queue.run_periodic(clock())
    assert places(queue) == {"backoff": ["a"]}
    assert queue.next_event() == 1001.0
    clock.advance(2)
    queue.run_periodic(clock())
    assert places(queue) == {"active": ["a"]}


# ---- threads -----------------------------------------------------------------------------------------------


def until_waiting(queue: Any, worker: threading.Thread) -> None:
    while worker.is_alive() and not queue.waiting:
        pass


def test_pop_waits_for_a_pod() -> None:
    queue = make_queue()
    popped: list[Any] = []
    worker = threading.Thread(target=lambda: popped.append(pop(queue, timeout=60)))
    worker.start()
    queue.add([queued("a")])
    worker.join(60)
    assert names(popped) == ["a"]


def test_who_waits_for_a_unit_keeps_nobody_out() -> None:
    queue = make_queue()
    popped: list[Any] = []
    worker = threading.Thread(target=lambda: popped.extend(queue.pop(timeout=60)), daemon=True)
    worker.start()
    until_waiting(queue, worker)
    other = threading.Thread(target=queue.add, args=([queued("a")],), daemon=True)
    other.start()
    for thread in (worker, other):
        thread.join(60)
    assert names(popped) == ["a"]


@pytest.mark.parametrize("how", ["an event", "the end of the backoff"])
def test_a_thread_that_waits_hears_of_pods_that_become_ready(how: str) -> None:
    queue = make_queue(WANTS_NODES, clock=(clock := Clock()), pop_from_backoff=False)
    queue.add([queued("a")])
    fail(queue, "Nodes")
    if how == "an event":
        clock.advance(9)
    else:
        move(queue, NODE_ADD)
    popped: list[Any] = []
    worker = threading.Thread(target=lambda: popped.append(pop(queue, timeout=None)), daemon=True)
    worker.start()
    until_waiting(queue, worker)
    with queue:  # the thread waits for a signal now, without a limit of time
        assert places(queue).keys() == {"unschedulable" if how == "an event" else "backoff"}
    if how == "an event":
        move(queue, NODE_ADD)
    else:
        clock.advance(9)
        queue.flush_backoff_completed()
    worker.join(60)
    assert names(popped) == ["a"]


def test_a_thread_that_waits_hears_of_a_failed_pod_that_is_ready_at_once() -> None:
    queue = make_queue(rejecting("Quota", on("Node", ADD)))
    queue.add([queued("a")])
    info = pop(queue)
    popped: list[Any] = []
    worker = threading.Thread(target=lambda: popped.append(pop(queue, timeout=None)), daemon=True)
    worker.start()
    until_waiting(queue, worker)
    with queue:  # the thread waits for a signal now
        move(queue, NODE_ADD)
    reject(queue, info, pending=["Quota"])
    worker.join(60)
    assert names(popped) == ["a"]


def test_pop_ends_with_the_queue() -> None:
    queue = make_queue()
    queue.add([queued("a")])
    pop(queue)
    popped: list[Any] = []
    workers = [threading.Thread(target=lambda: popped.append(pop(queue, timeout=None))) for _ in range(2)]
    for worker in workers:
        worker.start()
    queue.close()
    for worker in workers:
        worker.join(60)
    assert popped == [None, None]
    assert places(queue) == {}


def test_several_threads_pop_each_pod_once() -> None:
    queue = make_queue()
    popped: list[str] = []

    def work() -> None:
        while (info := pop(queue, timeout=60)) is not None:
            popped.append(info.pod.name)
            queue.done([info])
            if len(popped) == 300:
                queue.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in range(300):
        queue.add([queued(f"p{number}")])
    for worker in workers:
        worker.join(60)
    assert sorted(popped) == sorted(f"p{number}" for number in range(300))


# ---- memory ------------------------------------------------------------------------------------------------


def test_what_was_deleted_does_not_pile_up() -> None:
    """In heaps that are not popped."""
    queue = make_queue(clock=(clock := Clock()))
    queue.add([queued("last")])
    clock.milliseconds = -1
    for number in range(2000):
        queue.add([queued(f"p{number}")])
        queue.delete([queued(f"p{number}")])
    assert queue.active.stored < 100
    assert pop(queue).pod.name == "last"


def test_what_was_deleted_in_order_does_not_pile_up() -> None:
    """In a lane that is not popped."""
    queue = make_queue()
    queue.add([queued("first")])
    for number in range(2000):
        queue.add([queued(f"p{number}")])
        queue.delete([queued(f"p{number}")])
    queue.add([queued("last")])
    assert queue.active.stored < 100
    assert [pop(queue).pod.name for _ in range(2)] == ["first", "last"]
