"""Events are written beside the scheduling."""

from __future__ import annotations

import re
from threading import Event, Semaphore
from typing import Any, cast

import pytest
from tests.doors.live import EventBroadcaster, writer
from tests.doors.store import NotSentError
from tests.make import pod
from tests.store.api.wire_server import LIMIT

from moorage.live.client import Connection
from moorage.store import AlreadyExistsError, ApiError, ForbiddenError, UnreachableError


class SlowServer:
    """Answers nothing until it is told to."""

    def __init__(self) -> None:
        self.answers, self.requests = Event(), list[Any]()

    def throttled(self) -> int:
        return 0

    def clock(self) -> float:
        return 0.0

    def request(self, *arguments: Any) -> bytes:
        self.answers.wait()
        self.requests.append(arguments)
        return b"{}"


def test_what_is_too_much_is_dropped() -> None:
    server = SlowServer()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    for _ in range(writer.MAX_QUEUED + 2):
        recorder.event(pod("a"), "Normal", "Scheduled", "Binding", "note")
    server.answers.set()
    recorder.writer.flush()
    recorder.event(pod("f"), "Normal", "Scheduled", "Binding", "note")
    recorder.writer.flush()
    recorder.close()
    assert (len(server.requests), recorder.dropped) == (writer.MAX_QUEUED + 1, 2)


def test_equal_events_of_several_objects_are_written() -> None:
    server = SlowServer()
    server.answers.set()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    recorder.event_of_each([pod("a"), pod("b")], "Normal", "Preempted", "Preempting", "note")
    recorder.writer.flush()
    recorder.close()
    assert (len(server.requests), recorder.events, recorder.dropped) == (2, [], 0)


class FailingServer(SlowServer):
    """Raises errors in turn before it answers."""

    def __init__(self, *errors: ApiError) -> None:
        super().__init__()
        self.errors, self.arrived = list(errors), Semaphore(0)

    def request(self, *arguments: Any) -> bytes:
        self.requests.append(arguments)
        self.arrived.release()
        if self.errors:
            raise self.errors.pop(0)
        return b"{}"


@pytest.mark.parametrize(
    ("errors", "tries", "failures"),
    [
        ([], 1, 0),
        ([NotSentError("refused"), UnreachableError("cut")], 3, 0),
        ([UnreachableError("cut")] * 11, 12, 0),
        ([UnreachableError("cut")] * 12, 12, 1),
        ([UnreachableError("cut"), AlreadyExistsError("the cut one was created")], 2, 0),
        ([AlreadyExistsError("of another")], 1, 1),
        ([ForbiddenError("no")], 1, 1),
        ([UnreachableError("cut"), ForbiddenError("no")], 2, 1),
    ],
)
def test_only_an_answer_drops_an_event(
    errors: list[ApiError],
    tries: int,
    failures: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same request is sent again, so an event whose answer was lost is there once."""
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.0)
    server = FailingServer(*errors)
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    recorder.event(pod("a"), "Normal", "Scheduled", "Binding", "note")
    recorder.writer.flush()
    assert len(server.requests) == tries
    assert len(set(server.requests)) == 1
    assert caplog.text.count("write has failed: what=event") == failures
    recorder.close()


def test_events_wait_while_nobody_answers() -> None:
    """At the end they are given up, and no thread holds the process."""
    server = FailingServer(UnreachableError("cut"), UnreachableError("cut"))
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    recorder.event(pod("a"), "Normal", "Scheduled", "Binding", "note")
    recorder.event(pod("b"), "Normal", "Scheduled", "Binding", "note")
    recorder.event(pod("a"), "Warning", "Later", "Binding", "of the same pod")
    assert server.arrived.acquire(timeout=LIMIT)
    assert server.arrived.acquire(timeout=LIMIT)
    assert not recorder.writer.finish(0.0)
    assert {request[3].count(b"of the same pod") for request in server.requests} == {0}
    assert len(recorder.writer) == 3


@pytest.mark.parametrize("length", [1, 236, 237, 253])
def test_names_of_events_fit(length: int) -> None:
    server = FailingServer()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 1.8e9)
    server.answers.set()
    for _ in range(2):
        recorder.event(pod("a" * length), "Normal", "Scheduled", f"Binding{len(server.requests)}", "note")
        recorder.writer.flush()
    names = {re.search(rb'"metadata":{"name":"([^"]*)"', request[3])[1] for request in server.requests}  # type: ignore[index]
    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)
    if length > 236:
        assert {len(name) for name in names} == {36}
    recorder.close()
