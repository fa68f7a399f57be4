"""Pods of a batch that are held while events are received, instead of being put back and popped again."""

from __future__ import annotations

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


def test_held_pods_see_no_events() -> None:
    queue, infos = filled()
    assert queue.hold.begin(infos, 1)
    assert not queue.is_listening()
    assert not queue.may_react(NODE_ADD)
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    assert queue.hold.end(infos)
    assert queue.in_flight_events() == []
    reject(queue, infos[1], "R")
    assert places(queue) == {"in_flight": ["c"], "unschedulable": ["b"]}


def test_they_see_those_after_it() -> None:
    queue, infos = filled()
    assert queue.hold.begin(infos, 1)
    assert queue.hold.end(infos)
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
        assert queue.hold.begin(infos, 0)
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
        assert queue.hold.end(infos) is is_next
        assert places(queue) == {"active": ["early"], "in_flight": ["b", "c"]}


def test_others_in_flight_or_recorded_events_rule_it_out() -> None:
    queue, infos = filled()
    queue.add(queued("other"))
    queue.pop(0)
    assert not queue.hold.begin(infos, 1), "the other one needs the events"
    queue, infos = filled()
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    assert not queue.hold.begin(infos, 1), "a pop after it would not see that event"
    assert not queue.hold.end(infos)


def test_pods_that_still_back_off_are_not_held() -> None:
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=Clock())
    queue.add(queued("a"))
    fail(queue, "R")
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    infos = queue.pop_batch(9)
    assert names(infos) == ["a"]
    assert not queue.hold.begin(infos, 0), "others may come before it there"


def test_a_change_of_a_held_pod_puts_all_back_first() -> None:
    queue, infos = filled()
    assert queue.hold.begin(infos, 1)
    old = infos[2].pod
    new = replace(old, metadata=replace(old.metadata, labels={"new": ""}))
    queue.update(old, new)
    assert not queue.hold.end(infos)
    assert places(queue) == {"active": ["b", "c"]}
    assert infos[2].pod is new
    assert [info.attempts for info in infos[1:]] == [0, 0]


def test_so_does_a_deletion_and_an_activation() -> None:
    queue, infos = filled()
    assert queue.hold.begin(infos, 1)
    queue.delete(infos[1].pod)
    assert not queue.hold.end(infos)
    assert places(queue) == {"active": ["c"]}
    queue, infos = filled()
    assert queue.hold.begin(infos, 1)
    queue.activate([infos[1].pod])
    assert not queue.hold.end(infos)
    assert places(queue) == {"active": ["b", "c"]}
