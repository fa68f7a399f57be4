"""A session is closed after its last request, and not before."""

from __future__ import annotations

import ssl
import time

import httpx2
import pytest
from tests.doors.live import HttpSessions, Session
from tests.doors.store import NotSentError

from moorage.live.client import Connection


class Transport(httpx2.BaseTransport):
    """Answers, and knows whether it was closed."""

    is_closed = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200)

    def close(self) -> None:
        self.is_closed = True


def test_a_session_is_closed_after_its_last_request() -> None:
    made: list[Session] = []
    transports: list[Transport] = []

    def make() -> Session:
        transport = Transport()
        transports.append(transport)
        made.append(Session("http://x", lambda: transport))
        with made[-1].send("GET", "/"):
            return made[-1]

    def is_closed(session: Session) -> bool:
        return transports[made.index(session)].is_closed

    sessions = HttpSessions(make, is_renewable=True)
    with sessions.use() as old, sessions.use() as same:
        assert old is same
        assert sessions.renew(old)
        with sessions.use() as new:
            assert new is not old
        assert not is_closed(old)
    assert is_closed(old)
    assert sessions.renew(new)
    with sessions.use() as third:
        assert is_closed(new)  # nobody used it
        assert not is_closed(third)
    sessions.close()
    assert is_closed(third)
    assert len(made) == 3


def test_a_transport_has_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last that was used is the next; one that nobody needs is closed."""
    transports, now = list[Transport](), [0.0]

    def make() -> Transport:
        transports.append(Transport())
        return transports[-1]

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    session = Session("http://x", make)
    with session.send("GET", "/"), session.send("GET", "/"):
        pass
    for now[0] in (5.0, 10.0):
        with session.send("GET", "/"):
            pass
    assert [one.is_closed for one in transports] == [False, True]
    session.close()
    assert [one.is_closed for one in transports] == [True, True]


def test_a_connection_without_tls_reads_no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst opens dozens of connections."""
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_: read.append(1))
    session = Session("http://127.0.0.1:1")
    with pytest.raises(httpx2.ConnectError), session.send("GET", "/"):
        pass
    session.close()
    assert not read


def test_credentials_that_cannot_change_are_not_renewed() -> None:
    sessions = HttpSessions(lambda: Session("http://x", Transport))
    with sessions.use() as session:
        assert not sessions.renew(session)
    with sessions.use() as same:
        assert same is session
    sessions.close()


def test_the_lease_is_asked_for_when_the_body_is_sent() -> None:
    """Until the connection is open, it may have run out."""
    answers = [True, False, True, True]

    class Slow(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            assert request.headers["Content-Length"] == "2"
            return httpx2.Response(200, content=b"".join(request.stream))  # type: ignore[arg-type]

    connection = Connection(Session("http://x", Slow))
    connection.may_write = lambda: answers.pop(0)
    with pytest.raises(NotSentError, match="the Lease is not held"):
        connection.request("POST", "/x", None, b"{}")
    assert connection.request("POST", "/x", None, b"{}") == b"{}"
