"""Operations on several pods do what as many operations on one pod do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from moorage.framework import ActionType, NominatingInfo
from moorage.framework.plugin.events import NODE, NODE_ADD, POD, on
from moorage.objects import Node, Pod, PodSchedulingGroup
from moorage.queue import QueuedPodInfo, SchedulingQueue
from tests.core.make import node
from tests.queue.make import Clock, fail, make_queue, names, places, queued, rejecting, saying

ADDED = on(NODE, ActionType.ADD, saying(True))


def filled(clock: Clock) -> SchedulingQueue:
    """Three pods of two priorities in the active queue, and one that backs off."""
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=clock)
    queue.add(queued("failed", 9))
    fail(queue, "R")
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    for name, priority in (("a", 1), ("b", 2), ("c", 1)):
        queue.add(queued(name, priority))
    return queue


def state(info: QueuedPodInfo) -> object:
    rejectors = info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    counts = info.attempts, info.unschedulable_count, info.consecutive_errors_count
    return info.pod.name, info.place, info.timestamp, rejectors, counts, info.was_flushed, info.until


def test_rejected_pods_return_as_one_by_one() -> None:
    """Up to the first that has changed, was not rejected, or for which there were events."""

    def returned(in_bulk: bool) -> tuple[object, int]:
        clock = Clock()
        queue = filled(clock)
        clock.advance(50)
        infos = [*queue.pop_batch(9), *queue.pop_batch(9), *queue.pop_batch(9)]
        assert names(infos) == ["b", "a", "c", "failed"]
        clock.advance(10)
        latest: list[Pod | None] = [info.pod for info in infos]
        latest[2] = replace(infos[2].pod, status=replace(infos[2].pod.status, phase="Pending"))
        plugins = frozenset({"R", "P"}), frozenset({"P"})
        at = queue._queue.reject(infos, latest, [plugins] * 4, 0) if in_bulk else 0
        assert queue._queue.reject(infos[3:], latest[3:], [(frozenset(), frozenset())], 0) == 0
        for info in infos[at:2]:
            assert queue._return(info, info.pod, plugins)
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
        assert queue._queue.reject(infos[3:], latest[3:], [plugins], 0) == 0
        return (places(queue), [state(info) for info in infos], queue.in_flight_events()), at

    (bulk, at), (single, _) = returned(True), returned(False)
    assert bulk == single
    assert at == 2


def test_rejected_pods_of_groups_return_as_one_by_one() -> None:
    """With their group, at the end of its attempt; events do not matter."""

    def returned(in_bulk: bool) -> object:
        clock = Clock()
        queue = make_queue(clock=clock, groups_pods=True)
        incoming = queue.count_incoming()
        for name in "abcd":
            queue.add(queued(name, scheduling_group=PodSchedulingGroup("g")))
        infos = queue.pop_batch(9)
        queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
        clock.advance(10)
        plugins = frozenset({"R", "P"}), frozenset({"P"})
        if in_bulk:
            assert queue._queue.reject(infos, [info.pod for info in infos], [plugins] * 4, 0) == 4
        else:
            for info in infos:
                assert queue._return(info, info.pod, plugins)
        assert places(queue) == {}
        queue.end_attempts(infos, False)
        numbers = [(info.order, queue.backoff_until(info)) for info in infos]
        return places(queue), [state(info) for info in infos], numbers, incoming, queue.in_flight_events()

    assert returned(True) == returned(False)


def test_pods_that_come_back_are_nominated_as_their_failures_say() -> None:
    """A pod whose status has a nomination is looked at closely, the others return together with it."""
    queue = make_queue(rejecting("R", ADDED))
    first = queued("first")
    queue.add(replace(first, status=replace(first.status, nominated_node_name="n")))
    for name in ("second", "third"):
        queue.add(queued(name))
    infos, nominator = queue.pop_batch(9), queue.nominator
    latest, rejectors = [info.pod for info in infos], [(frozenset({"R"}), frozenset[str]())] * 3
    assert queue._queue.reject(infos, latest, rejectors, 0) == 0
    queue.give_back(infos, latest, rejectors, [None, NominatingInfo("m"), NominatingInfo("m", noop=True)])
    assert places(queue) == {"unschedulable": ["first", "second", "third"]}
    assert {node: list(pods) for node, pods in nominator.by_node.items()} == {"n": ["first"], "m": ["second"]}


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_a_batch_is_what_single_pops_take(limit: int) -> None:
    batches, singles = filled(Clock()), filled(Clock())
    popped = []
    while batch := batches.pop_batch(limit):
        assert len(batch) <= limit
        assert all(info.attempts == 1 + (info.pod.name == "failed") for info in batch)
        popped += names(batch)
    assert popped == ["b", "a", "c", "failed"]
    while singles.pop(0) is not None:
        pass
    assert places(batches) == places(singles) == {"in_flight": ["b", "a", "c", "failed"]}


def test_a_pod_of_a_batch_is_put_back_where_it_was() -> None:
    queue = filled(Clock())
    before = places(queue)
    batch = [*queue.pop_batch(9), *queue.pop_batch(9)]
    for info in reversed(batch):
        queue.put_back(info)
    assert places(queue) == before


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("rejector", ["R", "S"])
@pytest.mark.parametrize("in_flight", [True, False])
def test_events_of_several_objects_move_pods_as_one_by_one(
    answer: bool, rejector: str, in_flight: bool
) -> None:
    def moved(move: Callable[[SchedulingQueue], None]) -> object:
        asks = on(NODE, ActionType.ADD, saying(answer))
        queue = make_queue(rejecting("R", asks), rejecting("S", on(POD, ActionType.DELETE)))
        for name in "ab":
            queue.add(queued(name))
            fail(queue, rejector)
        if in_flight:
            queue.add(queued("flying"))
            queue.pop(0)
        move(queue)
        return places(queue), [new.name for _, _, new in queue.in_flight_events()]

    nodes = [node("m"), node("n")]

    def one_by_one(queue: SchedulingQueue) -> None:
        for new in nodes:
            queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, new)

    assert moved(lambda queue: queue.move_all_for_each(NODE_ADD, nodes)) == moved(one_by_one)


def test_objects_of_events_are_read_as_long_as_a_hint_waits_for_one() -> None:
    """Later ones have no effect, so that those of bound pods need not be made."""
    queue, read = make_queue(rejecting("R", ADDED)), []
    queue.add(queued("a"))
    fail(queue, "R")

    def nodes() -> Iterator[Node]:
        for name in "mnop":
            read.append(name)
            yield node(name)

    queue.move_all_for_each(NODE_ADD, nodes())
    assert (places(queue).get("unschedulable"), read) == (None, ["m"])
    queue.move_all_for_each(NODE_ADD, nodes())
    assert read == ["m"]


def test_an_event_may_have_an_effect_where_a_hint_waits_for_it() -> None:
    queue = make_queue(rejecting("R", ADDED), rejecting("S", on(POD, ActionType.DELETE)))
    assert not queue.may_react(NODE_ADD)
    for rejector, reacts in (("S", False), ("R", True)):
        queue.add(queued(rejector))
        fail(queue, rejector)
        assert queue.may_react(NODE_ADD) == reacts
    queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    assert not queue.may_react(NODE_ADD)
    queue.add(queued("flying"))
    assert not queue.may_react(NODE_ADD)
    queue.pop(0)
    assert queue.may_react(NODE_ADD)


@pytest.mark.parametrize("backs_off", [True, False])
def test_a_pod_whose_spec_stays_keeps_its_place(backs_off: bool) -> None:
    queue = make_queue(rejecting("R", ADDED))
    for name in ("a", "b", "c"):
        queue.add(queued(name))
        if backs_off:
            fail(queue, "R")
            queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    before, old = places(queue), queue._queue.infos["b"].pod
    new = replace(old, status=replace(old.status, nominated_node_name="n"))
    queue.update(old, new)
    assert places(queue) == before
    assert queue._queue.infos["b"].pod is new
    assert queue.nominator.nominated_pods_for_node("n") == [new]
    queue.update(new, replace(new, spec=replace(new.spec, priority=9)))
    assert [info.pod.name for info in queue.pop_batch(1)] == ["b"]
