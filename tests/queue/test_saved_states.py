"""Every operation of the queue is undone, and a saved state is copied again after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moorage.engine.framework import ClusterEventWithHint
from moorage.engine.queue import Place, QueuedPodInfo, SchedulingQueue
from moorage.kube import PodSchedulingGroup
from tests.make import node, pod
from tests.queue.make import NODE_ADD, Clock, fail, gating, make_queue, move, rejecting

OPERATIONS: dict[str, Callable[[Any], object]] = {
    "add": lambda one: one.add([pod("new")]),
    "delete": lambda one: one.delete([pod("c")]),
    "delete an unschedulable pod": lambda one: one.delete([pod("a")]),
    "update": lambda one: one.update(pod("c"), pod("c", labels={"l": "1"})),
    "change the rank": lambda one: one.update(pod("c"), pod("c", priority=5)),
    "update an unschedulable pod": lambda one: one.update(pod("a"), pod("a", labels={"l": "1"})),
    "pop": lambda one: one.done(one.pop()),
    "pop many": lambda one: one.done(one.pop(9)),
    "put back": lambda one: one.put_back(one.pop()),
    "fail": lambda one: fail(one, "Some"),
    "activate": lambda one: one.activate([pod("a"), pod("gated")]),
    "move": lambda one: move(one, NODE_ADD, None, node("n")),
    "repair": lambda one: one.repair(),
}


def made(groups_pods: bool) -> SchedulingQueue:
    """a and b are unschedulable and back off; c, d and a group are active; another pod is gated."""
    some = rejecting("Some", ClusterEventWithHint(NODE_ADD))
    gate = gating("Gate", lambda one: one.name == "gated")
    one: SchedulingQueue = make_queue(some, gate, clock=Clock(), groups_pods=groups_pods)
    one.add([pod("a")])
    fail(one, "Some")
    one.add([pod("b")])
    fail(one)
    for name in ("c", "d", "gated"):
        one.add([pod(name)])
    for name in ("e", "f"):
        one.add([pod(name, scheduling_group=PodSchedulingGroup("g"))])
    return one


def state(one: SchedulingQueue) -> object:
    """All that is known of every pod."""

    def fields(info: QueuedPodInfo) -> tuple[object, ...]:
        names = [name for name in dir(info) if not name.startswith("_") and not callable(getattr(info, name))]
        return tuple(getattr(info, name) for name in names)

    found = one.pending_pods()._asdict()
    return {place: [fields(info) for info in infos] for place, infos in found.items()}


@pytest.mark.parametrize("groups_pods", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_undone(operation: str, groups_pods: bool) -> None:
    one, twin = made(groups_pods), made(groups_pods)
    before = state(one)
    assert before == state(twin)
    outer = one.save()
    for _ in range(2):
        OPERATIONS[operation](one)
        changed, inner = state(one), one.save()
        OPERATIONS["delete"](one)
        OPERATIONS["add"](one)
        one.undo(inner)
        assert state(one) == changed
        one.undo(outer)
        assert state(one) == before
    for queue in (one, twin):
        OPERATIONS[operation](queue)
        OPERATIONS["pop many"](queue)
    assert state(one) == state(twin)


def test_a_pod_in_flight_is_in_flight_again() -> None:
    one = made(False)
    (info,) = one.pop()
    before, saved = state(one), one.save()
    one.put_back([info])
    one.undo(saved)
    assert (state(one), one.in_flight()) == (before, [info])


def test_events_in_flight_are_undone_and_repaired() -> None:
    """After a repair, all pods in flight hear of all events that are left."""
    one = made(False)
    first = one.pop()
    move(one, NODE_ADD, None, node("n"))
    second, saved = one.pop(), one.save()
    for _ in range(2):
        move(one, NODE_ADD, None, node("o"))
        one.done(first)
        assert [new.name for _, _, new in one.in_flight_events()] == ["o"]
        one.undo(saved)
        assert [new.name for _, _, new in one.in_flight_events()] == ["n"]
        assert one.in_flight() == [*first, *second]
    one.repair()
    one.done(first)
    assert [new.name for _, _, new in one.in_flight_events()] == ["n"]
    fail_with = [(frozenset({"Some"}), frozenset[str]())]
    one.give_back(second, [second[0].pod], fail_with)
    assert second[0].place is Place.BACKOFF


@pytest.mark.parametrize("groups_pods", [False, True])
def test_a_copy_is_independent(groups_pods: bool) -> None:
    one, other = made(groups_pods), make_queue(groups_pods=groups_pods)
    before = state(one)
    other.copy_from(one)
    assert state(other) == before
    for operation in ("change the rank", "update an unschedulable pod", "pop many", "add"):
        OPERATIONS[operation](other)
    assert state(one) == before


def test_a_copy_has_the_pods_in_flight_and_what_happened_meanwhile() -> None:
    one, other = made(False), make_queue()
    (info,) = one.pop()
    move(one, NODE_ADD, None, node("n"))
    other.copy_from(one)
    assert [copied.uid for copied in other.in_flight()] == [info.uid]
    assert other.in_flight_events() == one.in_flight_events() != []


@pytest.mark.parametrize("groups_pods", [False, True])
def test_a_pop_of_no_pod_changes_nothing(groups_pods: bool) -> None:
    one = made(groups_pods)
    while infos := one.pop(9):
        one.done(infos)
    changes = one.changes
    assert one.pop(9) == []
    assert one.changes == changes
