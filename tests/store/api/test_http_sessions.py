"""A client is closed after its last request, and not before."""

from __future__ import annotations

import httpx2

from moorage.store.api.http_sessions import HttpSessions, Session


def test_a_client_is_closed_after_its_last_request() -> None:
    made: list[Session] = []

    def make() -> Session:
        made.append(Session(httpx2.Client()))
        return made[-1]

    sessions = HttpSessions(make, is_renewable=True)
    with sessions.use() as old, sessions.use() as same:
        assert old is same
        assert sessions.renew(old)
        with sessions.use() as new:
            assert new is not old
        assert not old.client.is_closed
    assert old.client.is_closed
    assert sessions.renew(new)
    with sessions.use() as third:
        assert new.client.is_closed  # nobody used it
        assert not third.client.is_closed
    sessions.close()
    assert third.client.is_closed
    assert len(made) == 3


def test_credentials_that_cannot_change_are_not_renewed() -> None:
    sessions = HttpSessions(lambda: Session(httpx2.Client()))
    with sessions.use() as session:
        assert not sessions.renew(session)
    with sessions.use() as same:
        assert same is session
    sessions.close()
