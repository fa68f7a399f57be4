"""FrameworkHandle and what it hands out."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tests.doors.engine import Parallelizer, PodInPreBind, handle
from tests.framework.make import NoClient
from tests.make import pod

from moorage.engine.cache import SchedulerCache
from moorage.engine.framework import EventRecorder, FrameworkHandle


def test_notes_are_cut_at_1024_bytes() -> None:
    recorder = EventRecorder()
    for text in ("x" * 1024, "x" * 1025, "é" * 1000):
        recorder.event(pod("p"), "Warning", "R", "A", text)
    notes = [event.note for event in recorder.events]
    assert notes == ["x" * 1024, "x" * 1020 + " ...", "é" * 510 + " ..."]


def test_equal_events_of_objects_are_events_of_each() -> None:
    one, many, left = EventRecorder(), EventRecorder(), EventRecorder()
    for recorder in (one, many, left):
        recorder.event(pod("p"), "Warning", "R", "A", "before")
    saved, its = left.save(), [pod("a"), pod("b")]
    for each in its:
        one.event(each, "Normal", "R", "A", "é" * 1000)
    many.event_of_each(its, "Normal", "R", "A", "é" * 1000)
    assert one.events == many.events
    left.copy_from(many)
    assert left.events == many.events
    left.undo(saved)
    assert [event.note for event in left.events] == ["before"]


def test_the_last_events_are_kept_and_an_undo_has_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "MOST_EVENTS", 2)
    recorder, numbers = EventRecorder(), [f"{number}" for number in range(9)]
    for number in numbers[:3]:
        recorder.event(pod("p"), "Normal", "R", "A", number)
    saved = recorder.save()
    for number in numbers[3:]:
        recorder.event(pod("p"), "Normal", "R", "A", number)
    assert [event.note for event in recorder.events] == numbers[-3:]
    recorder.undo(saved)
    assert [event.note for event in recorder.events] == numbers[:3]


def test_one_worker_keeps_the_order() -> None:
    done: list[int] = []
    Parallelizer().until(4, done.append)
    assert done == [0, 1, 2, 3]


def test_several_workers_do_all_and_pass_on_what_is_raised() -> None:
    done: set[int] = set()
    names: set[str] = set()

    def work(piece: int) -> None:
        done.add(piece)
        names.add(threading.current_thread().name)

    Parallelizer(3).until(20, work)
    assert done == set(range(20))
    assert threading.current_thread().name not in names

    def fail(piece: int) -> None:
        raise ValueError(piece)

    with pytest.raises(ValueError, match="0"):
        Parallelizer(3).until(2, fail)


def test_pods_in_pre_bind() -> None:
    handle = FrameworkHandle(SchedulerCache(), NoClient())  # type: ignore[arg-type]
    assert handle.get_pod_in_pre_bind("u") is None
    one = handle.pods_in_pre_bind["u"] = PodInPreBind()
    assert handle.get_pod_in_pre_bind("u") is one
    assert one.mark_prebound()
    assert not one.cancel_pod("late")
    assert one.cause == ""
    two = PodInPreBind()
    assert two.cancel_pod("first")
    assert two.cancel_pod("second")
    assert not two.mark_prebound()
    assert two.cause == "first"


def test_what_plugins_share_is_made_once_for_all_profiles() -> None:
    handle = FrameworkHandle(SchedulerCache(), NoClient())  # type: ignore[arg-type]
    made: list[FrameworkHandle] = []

    def make(one: FrameworkHandle) -> int:
        made.append(one)
        return len(made)

    assert [handle.shared(make), handle.shared(make)] == [1, 1]
    other = replace(handle)
    assert [other.shared(make), handle.shared(make), handle.shared(id)] == [1, 1, id(handle)]
    assert made == [handle]
