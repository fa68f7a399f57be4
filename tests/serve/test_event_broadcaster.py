"""Events are written beside the scheduling."""

from __future__ import annotations

from threading import Event
from typing import Any, cast

import pytest
from tests.core.make import pod

from moorage.serve import EventBroadcaster, event_broadcaster
from moorage.store.api import Connection


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


def test_what_is_too_much_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_broadcaster, "MAX_QUEUED", 3)
    server = SlowServer()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    for name in "abcde":
        recorder.event(pod(name), "Normal", "Scheduled", "Binding", "note")
    server.answers.set()
    recorder.flush()
    recorder.event(pod("f"), "Normal", "Scheduled", "Binding", "note")
    recorder.flush()
    recorder.close()
    assert (len(server.requests), recorder.dropped) == (4, 2)


def test_equal_events_of_several_objects_are_written() -> None:
    server = SlowServer()
    server.answers.set()
    recorder = EventBroadcaster(cast(Connection, server), "s", lambda: 0.0)
    recorder.event_of_each([pod("a"), pod("b")], "Normal", "Preempted", "Preempting", "note")
    recorder.flush()
    recorder.close()
    assert (len(server.requests), recorder.events, recorder.dropped) == (2, [], 0)
