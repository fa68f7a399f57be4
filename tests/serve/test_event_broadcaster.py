"""The threads that write events."""

from __future__ import annotations

from threading import Event, Semaphore, enumerate
from typing import Any, cast

from tests.core.make import pod

from moorage.serve import EventBroadcaster
from moorage.serve.event_broadcaster import BACKLOG, MAX_WRITERS, WRITERS
from moorage.store.api import Connection


class SlowServer:
    """Answers nothing until it is told to."""

    def __init__(self) -> None:
        self.begun, self.answers, self.requests = Semaphore(0), Event(), list[Any]()

    def request(self, *arguments: Any) -> bytes:
        self.begun.release()
        self.answers.wait()
        self.requests.append(arguments)
        return b"{}"


def test_more_threads_write_while_many_events_wait() -> None:
    server = SlowServer()
    before = {thread for thread in enumerate() if thread.name == "events"}
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    count = 0

    def record(more: int) -> None:
        nonlocal count
        for _ in range(more):
            count += 1
            recorder.event(pod(f"p{count}"), "Normal", "Scheduled", "Binding", "note")

    for _ in range(WRITERS):
        record(1)
        assert server.begun.acquire(timeout=30)
    record(WRITERS * BACKLOG)
    assert not server.begun.acquire(blocking=False)
    record(MAX_WRITERS * BACKLOG)
    for _ in range(MAX_WRITERS - WRITERS):
        assert server.begun.acquire(timeout=30)
    record(MAX_WRITERS * BACKLOG)
    assert not server.begun.acquire(blocking=False)
    server.answers.set()
    recorder.flush()
    assert len(server.requests) == count
    recorder.close()
    assert {thread for thread in enumerate() if thread.name == "events"} <= before
    assert (recorder.dropped, recorder.failed) == (0, 0)


def test_equal_events_of_several_objects_are_written() -> None:
    server = SlowServer()
    server.answers.set()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    recorder.event_of_each([pod("a"), pod("b")], "Normal", "Preempted", "Preempting", "note")
    recorder.flush()
    recorder.close()
    assert (len(server.requests), recorder.events, recorder.dropped) == (2, [], 0)
