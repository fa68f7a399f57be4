"""Pods of a batch that are suspended while events are received, as if they were put back and popped again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage.framework import ActionType
from moorage.framework.plugin.events import NODE, NODE_ADD, on
from moorage.queue import QueuedPodInfo, SchedulingQueue
from tests.core.make import node
from tests.queue.make import Clock, fail, make_queue, names, places, queued, reject, rejecting, saying

ADDED = on(NODE, ActionType.ADD, saying(True))


def filled(clock: Clock | None = None, **settings: float) -> tuple[SchedulingQueue, list[QueuedPodInfo]]:
    """A queue whose pods a, b and c were popped together; of these, a has ended."""
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=clock, **settings)
    for name in "abc":
        queue.add(queued(name, 1))
    infos = queue.pop_batch(9)
    queue.done(infos[0].uid)
    return queue, infos


def test_suspended_pods_see_no_events() -> None:
    queue, infos = filled()
    assert queue.suspend(infos, 1)
    assert not queue.is_listening()
    assert not queue.may_react(NODE_ADD)
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    assert queue.resume(infos)
    assert queue.in_flight_events() == []
    reject(queue, infos[1], "R")
    assert places(queue) == {"in_flight": ["c"], "unschedulable": ["b"]}


def test_they_see_those_after_it() -> None:
    queue, infos = filled()
    assert queue.suspend(infos, 1)
    assert queue.resume(infos)
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    reject(queue, infos[1], "R")
    assert places(queue) == {"in_flight": ["c"], "backoff": ["b"]}


def test_a_pod_that_an_event_puts_in_front_is_next() -> None:
    for priority, is_next in ((2, False), (1, False), (0, True)):
        clock = Clock()
        queue: SchedulingQueue = make_queue(
            rejecting("R", ADDED), clock=clock, initial_backoff=0, max_backoff=0
        )
        queue.add(queued("early", priority))
        fail(queue, "R")
        clock.advance(1)
        for name in "bc":
            queue.add(queued(name, 1))
        infos = queue.pop_batch(9)
        assert queue.suspend(infos, 0)
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
        assert queue.resume(infos) is is_next
        assert places(queue) == {"active": ["early"], "in_flight": ["b", "c"]}


def test_events_before_concern_those_that_were_tried() -> None:
    queue, infos = filled()
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    assert queue.suspend(infos, 2)
    assert queue.resume(infos)
    reject(queue, infos[1], "R")
    reject(queue, infos[2], "R")
    assert places(queue) == {"backoff": ["b"], "unschedulable": ["c"]}


def test_pods_popped_before_them_are_refused() -> None:
    queue, infos = filled()
    queue.add(queued("other"))
    other = queue.pop_batch(1)
    assert not queue.suspend(infos, 1), "other pods were popped after them"
    assert queue.suspend(other, 0)
    assert not queue.suspend(other, 0), "they are suspended"
    assert queue.resume(other)
    assert not queue.resume(other)
    with pytest.raises(IndexError, match="a pod of the list"):
        queue.suspend(infos, 3)


STEPS = st.lists(st.sampled_from(["fail", "place", "bind", "event", "evict"]), max_size=14)


@settings(deadline=None, max_examples=300)
@given(STEPS, st.integers(1, 9))
def test_they_are_as_pods_that_were_put_back_and_popped(steps: list[str], number: int) -> None:
    """Each pod of a batch fails or is placed, placed ones are bound at any time, and events come."""

    def seen(suspends: bool) -> list[object]:
        queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=Clock())
        for at in range(number):
            queue.add(queued(f"p{at}", 1))
        infos, placed, out = queue.pop_batch(99), list[QueuedPodInfo](), list[object]()
        at = 0
        for step in steps:
            if step in ("fail", "place") and at < len(infos):
                at += 1
                if step == "fail":
                    reject(queue, infos[at - 1], "R")
                else:
                    placed.append(infos[at - 1])
            elif step == "bind" and placed:
                reject(queue, placed.pop(0), "R")
            elif step == "event":
                queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
            elif step == "evict" and at < len(infos):
                if suspends:
                    assert queue.suspend(infos, at)
                else:
                    queue.put_back(*infos[at:])
                queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
                if placed:
                    queue.done(placed.pop().uid)
                if suspends:
                    assert queue.resume(infos)
                else:
                    infos, at = queue.pop_batch(99), 0
            out.append(places(queue))
            out.append([info.attempts for info in infos[at:]])
        for info in infos[at:] + placed:
            reject(queue, info, "R")
        return [*out, places(queue), queue.in_flight_events()]

    assert seen(True) == seen(False)


def test_pods_that_still_back_off_are_not_suspended() -> None:
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=Clock())
    queue.add(queued("a"))
    fail(queue, "R")
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    infos = queue.pop_batch(9)
    assert names(infos) == ["a"]
    assert not queue.suspend(infos, 0), "others may come before it there"


def test_a_change_of_a_suspended_pod_puts_all_back_first() -> None:
    queue, infos = filled()
    assert queue.suspend(infos, 1)
    old = infos[2].pod
    new = replace(old, metadata=replace(old.metadata, labels={"new": ""}))
    queue.update(old, new)
    assert not queue.resume(infos)
    assert places(queue) == {"active": ["b", "c"]}
    assert infos[2].pod is new
    assert [info.attempts for info in infos[1:]] == [0, 0]


def test_so_does_a_deletion_and_an_activation() -> None:
    queue, infos = filled()
    assert queue.suspend(infos, 1)
    queue.delete(infos[1].pod)
    assert not queue.resume(infos)
    assert places(queue) == {"active": ["c"]}
    queue, infos = filled()
    assert queue.suspend(infos, 1)
    queue.activate([infos[1].pod])
    assert not queue.resume(infos)
    assert places(queue) == {"active": ["b", "c"]}


def test_they_stay_apart_from_those_tried_when_many_have_left() -> None:
    """The seats of pods that have left are removed now and then."""
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=Clock())
    for at in range(90):
        queue.add(queued(f"p{at}", 1))
    infos = queue.pop_batch(99)
    for at in (1, 40, 80):
        assert queue.suspend(infos, at)
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
        assert queue.resume(infos)
        queue.finish(infos[at : min(at + 38, 88)])
    for at, left in ((0, 2), (39, 1), (78, 1), (79, 0)):
        reject(queue, infos[at], "R")
        assert len(queue.in_flight_events()) == left, "those that pods after it have not seen"
    for info in infos[88:]:
        reject(queue, info, "R")
    assert places(queue) == {"backoff": ["p0", "p39", "p78", "p79"], "unschedulable": ["p88", "p89"]}
