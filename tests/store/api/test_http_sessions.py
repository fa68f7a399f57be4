"""A session is closed after its last request, and not before."""

from __future__ import annotations

import httpx2

from moorage.store.api.http_sessions import HttpSessions, Session


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
