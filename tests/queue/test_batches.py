"""Operations on several pods do what as many operations on one pod do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from moorage.engine.framework import ActionType, NominatingInfo
from moorage.engine.queue import QueuedPodInfo, SchedulingQueue
from moorage.kube import Node, Pod, PodSchedulingGroup
from tests.doors.engine import Notice, on
from tests.make import node
from tests.queue.make import NODE_ADD, Clock, fail, make_queue, move, places, pop, queued, rejecting, saying

ADDED = on("Node", ActionType.ADD, saying(True))


def filled(clock: Clock) -> SchedulingQueue:
    """Three pods of two priorities in the active queue, and one that backs off."""
    queue: SchedulingQueue = make_queue(rejecting("R", ADDED), clock=clock)
    queue.add([queued("failed", 9)])
    fail(queue, "R")
    move(queue, NODE_ADD, None, node("n"))
    for name, priority in (("a", 1), ("b", 2), ("c", 1)):
        queue.add([queued(name, priority)])
    return queue


def state(info: QueuedPodInfo) -> object:
    rejectors = info.unschedulable_plugins, info.pending_plugins, info.gating_plugin
    counts = info.attempts, info.unschedulable_count, info.consecutive_errors_count
    return info.pod.name, info.place, info.timestamp, rejectors, counts, info.was_flushed, info.until


@pytest.mark.parametrize("groups_pods", [False, True])
def test_failed_pods_return_as_one_by_one(groups_pods: bool) -> None:
    """Whatever happened since their pop; pods of groups with their group, at the end of its attempt."""

    def returned(at_once: bool) -> object:
        clock = Clock()
        queue = make_queue(rejecting("R", ADDED), clock=clock, groups_pods=groups_pods)
        incoming = queue.count_incoming()
        for name in "abcde":
            queue.add([queued(name, scheduling_group=PodSchedulingGroup("g"))])
        infos = queue.pop(4)
        move(queue, NODE_ADD, None, node("n"))
        infos += queue.pop(9)
        clock.advance(10)
        latest: list[Pod | None] = [info.pod for info in infos]
        latest[2] = replace(infos[2].pod, status=replace(infos[2].pod.status, phase="Pending"))
        plugins = [(frozenset({"R", "P"}), frozenset({"P"}))] * 4 + [(frozenset[str](), frozenset[str]())]
        for part in [slice(0, 5)] if at_once else [slice(at, at + 1) for at in range(5)]:
            queue.give_back(infos[part], latest[part], plugins[part])
        assert bool(places(queue)) != groups_pods
        queue.end_attempts(infos, False)
        numbers = [(info.order, queue.backoff_until(info)) for info in infos]
        return places(queue), [state(info) for info in infos], numbers, incoming, queue.in_flight_events()

    assert returned(True) == returned(False)


def test_pods_that_come_back_are_nominated_as_their_failures_say() -> None:
    queue = make_queue(rejecting("R", ADDED))
    first = queued("first")
    queue.add([replace(first, status=replace(first.status, nominated_node_name="n"))])
    for name in ("second", "third"):
        queue.add([queued(name)])
    infos, nominator = queue.pop(9), queue.nominator
    latest, rejectors = [info.pod for info in infos], [(frozenset({"R"}), frozenset[str]())] * 3
    queue.give_back(infos, latest, rejectors, [None, NominatingInfo("m"), NominatingInfo("m", noop=True)])
    assert places(queue) == {"unschedulable": ["first", "second", "third"]}
    assert {node: list(pods) for node, pods in nominator.by_node.items()} == {"n": ["first"], "m": ["second"]}


def test_a_pod_of_a_batch_is_put_back_where_it_was() -> None:
    queue = filled(Clock())
    before = places(queue)
    batch = [*queue.pop(9), *queue.pop(9)]
    for info in reversed(batch):
        queue.put_back([info])
    assert places(queue) == before


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("rejector", ["R", "S"])
@pytest.mark.parametrize("in_flight", [True, False])
def test_events_of_several_objects_move_pods_as_one_by_one(
    answer: bool, rejector: str, in_flight: bool
) -> None:
    def moved(at_once: bool) -> object:
        asks = on("Node", ActionType.ADD, saying(answer))
        queue = make_queue(rejecting("R", asks), rejecting("S", on("Pod", ActionType.DELETE)))
        for name in "ab":
            queue.add([queued(name)])
            fail(queue, rejector)
        if in_flight:
            queue.add([queued("flying")])
            pop(queue)
        nodes = [Notice(None, node("m")), Notice(None, node("n"))]
        for part in [nodes] if at_once else [nodes[:1], nodes[1:]]:
            queue.move_all(NODE_ADD, part)
        return places(queue), [new.name for _, _, new in queue.in_flight_events()]

    assert moved(True) == moved(False)


def test_objects_of_events_are_read_as_long_as_a_hint_waits_for_one() -> None:
    """Later ones have no effect, so that those of bound pods need not be made."""
    queue, read = make_queue(rejecting("R", ADDED)), []
    queue.add([queued("a")])
    fail(queue, "R")

    def nodes() -> Iterator[Notice[Node]]:
        for name in "mnop":
            read.append(name)
            yield Notice(None, node(name))

    queue.move_all(NODE_ADD, nodes())
    assert (places(queue).get("unschedulable"), read) == (None, ["m"])
    queue.move_all(NODE_ADD, nodes())
    assert read == ["m"]


def test_an_event_may_have_an_effect_where_a_hint_waits_for_it() -> None:
    queue = make_queue(rejecting("R", ADDED), rejecting("S", on("Pod", ActionType.DELETE)))
    assert not queue.may_react(NODE_ADD)
    for rejector, reacts in (("S", False), ("R", True)):
        queue.add([queued(rejector)])
        fail(queue, rejector)
        assert queue.may_react(NODE_ADD) == reacts
    move(queue, NODE_ADD, None, node("n"))
    assert not queue.may_react(NODE_ADD)
    queue.add([queued("flying")])
    assert not queue.may_react(NODE_ADD)
    pop(queue)
    assert queue.may_react(NODE_ADD)


@pytest.mark.parametrize("backs_off", [True, False])
def test_a_pod_whose_spec_stays_keeps_its_place(backs_off: bool) -> None:
    queue = make_queue(rejecting("R", ADDED))
    for name in ("a", "b", "c"):
        queue.add([queued(name)])
        if backs_off:
            fail(queue, "R")
            move(queue, NODE_ADD, None, node("n"))
    before, old = places(queue), queue.get("b").pod
    new = replace(old, status=replace(old.status, nominated_node_name="n"))
    queue.update(old, new)
    assert places(queue) == before
    assert queue.get("b").pod is new
    assert queue.nominator.nominated_pods_for_node("n") == [new]
    queue.update(new, replace(new, spec=replace(new.spec, priority=9)))
    assert [info.pod.name for info in queue.pop(1)] == ["b"]
