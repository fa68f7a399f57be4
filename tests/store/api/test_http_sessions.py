"""A session is closed after its last request, and not before."""

from __future__ import annotations

import httpx2
import pytest

from moorage.store.api import Connection
from moorage.store.api.http_sessions import HttpSessions, Session
from moorage.store.errors import NotSentError


class Closed(httpx2.BaseTransport):
    """Knows whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def is_closed(session: Session) -> bool:
    transport = session._transport
    assert isinstance(transport, Closed)
    return transport.is_closed


def test_a_session_is_closed_after_its_last_request() -> None:
    made: list[Session] = []

    def make() -> Session:
        made.append(Session("http://x", Closed()))
        return made[-1]

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


def test_credentials_that_cannot_change_are_not_renewed() -> None:
    sessions = HttpSessions(lambda: Session("http://x", Closed()))
    with sessions.use() as session:
        assert not sessions.renew(session)
    with sessions.use() as same:
        assert same is session
    sessions.close()


def test_the_lease_is_asked_for_when_the_body_is_sent() -> None:
    """Until the connection is open, it may have run out."""
    holds = [True]

    class Slow(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            assert request.headers["Content-Length"] == "2"
            holds[0] = not holds[0]
            return httpx2.Response(200, content=b"".join(request.stream))  # type: ignore[arg-type]

    connection = Connection(Session("http://x", Slow()))
    connection.may_write = lambda: holds[0]
    with pytest.raises(NotSentError, match="the Lease is not held"):
        connection.request("POST", "/x", None, b"{}")
    assert connection.request("POST", "/x", None, b"{}") == b"{}"
