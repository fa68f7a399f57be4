"""Every operation of the queue is undone, and a saved state is copied again after it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from moorage.framework import ClusterEventWithHint
from moorage.framework.plugin.events import NODE_ADD
from moorage.objects import PodSchedulingGroup
from moorage.queue import QueuedPodInfo, SchedulingQueue
from tests.core.make import node, pod
from tests.queue.make import Clock, fail, gating, make_queue, rejecting

OPERATIONS: dict[str, Callable[[Any], object]] = {
    "add": lambda one: one.add(pod("new")),
    "delete": lambda one: one.delete(pod("c")),
    "delete an unschedulable pod": lambda one: one.delete(pod("a")),
    "update": lambda one: one.update(pod("c"), pod("c", labels={"l": "1"})),
    "change the rank": lambda one: one.update(pod("c"), pod("c", priority=5)),
    "update an unschedulable pod": lambda one: one.update(pod("a"), pod("a", labels={"l": "1"})),
    "pop": lambda one: one.done(one.pop(0).uid),
    "pop many": lambda one: one.done(*[info.uid for info in one.pop_batch(9)]),
    "pop a unit": lambda one: one.done(*[info.uid for info in one.pop_unit(0)]),
    "put back": lambda one: one.put_back(one.pop(0)),
    "fail": lambda one: fail(one, "Some"),
    "activate": lambda one: one.activate([pod("a"), pod("gated")]),
    "move": lambda one: one.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n")),
    "repair": lambda one: one.repair(),
}


def made(groups_pods: bool) -> SchedulingQueue:
    """a and b are unschedulable and back off; c, d and a group are active; another pod is gated."""
    some = rejecting("Some", ClusterEventWithHint(NODE_ADD))
    gate = gating("Gate", lambda one: one.name == "gated")
    one: SchedulingQueue = make_queue(some, gate, clock=Clock(), groups_pods=groups_pods)
    one.add(pod("a"))
    fail(one, "Some")
    one.add(pod("b"))
    fail(one)
    for name in ("c", "d", "gated"):
        one.add(pod(name))
    for name in ("e", "f"):
        one.add(pod(name, scheduling_group=PodSchedulingGroup("g")))
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
    info: Any = one.pop(0)
    before, saved = state(one), one.save()
    one.put_back(info)
    one.undo(saved)
    assert (state(one), one.in_flight()) == (before, [info])


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
    info: Any = one.pop(0)
    one.move_all_to_active_or_backoff_queue(NODE_ADD, None, node("n"))
    other.copy_from(one)
    assert [copied.uid for copied in other.in_flight()] == [info.uid]
    assert other.in_flight_events() == one.in_flight_events() != []


def test_entries_are_copied_with_all_fields() -> None:
    info = QueuedPodInfo(pod("a"), 3.0, attempts=2, was_flushed=True, gating_plugin="Gate", order=7)
    for name in ("attempts", "was_flushed", "gating_plugin", "order", "timestamp", "uid", "pod"):
        assert getattr(copy(info), name) == getattr(info, name)


@pytest.mark.parametrize("groups_pods", [False, True])
def test_a_pop_of_no_pod_changes_nothing(groups_pods: bool) -> None:
    one = made(groups_pods)
    while infos := one.pop_batch(9):
        one.done(*[info.uid for info in infos])
    changes = one._queue.changes
    assert one.pop_batch(9) == []
    assert one._queue.changes == changes
