"""HTTP clients that carry the user's credentials; a new one takes over when these change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import httpx2

from .reloaded import Reloaded


class Session:
    """An HTTP client and what is known of its credentials.

    Parameters
    ----------
    client : httpx2.Client
    expires : float, optional
        Seconds since 1970 until which the credentials count.

    Attributes
    ----------
    client : httpx2.Client
    expires : float
    users : int
        The number of requests in it.
    """

    def __init__(self, client: httpx2.Client, expires: float = float("inf")) -> None:
        self.client, self.expires = client, expires
        self.users = 0


class HttpSessions:
    """Gives each request a client with the credentials of the moment. Thread-safe.

    A connection belongs to the client certificate that it began with, so new credentials need a new client.
    The old one is closed after its last request; watches end by themselves.

    Parameters
    ----------
    make : callable
        Returns a session. What it raises is the failure of the request that needs it.
    files : sequence of str, optional
        What `make` reads.
    is_renewable : bool, optional
        Whether `make` may return other credentials although no file has changed.
    now : callable, optional
        Returns seconds since 1970.
    """

    def __init__(
        self,
        make: Callable[[], Session],
        files: Sequence[str] = (),
        is_renewable: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sessions = Reloaded(make, files)
        self._is_renewable, self._now = is_renewable, now
        self._lock = Lock()
        self._current: Session | None = None

    @contextmanager
    def use(self) -> Iterator[Session]:
        """Keep a session open during the block.

        Yields
        ------
        Session
        """
        with self._lock:
            session = self._sessions.get(lambda one: one.expires <= self._now())
            old, self._current = self._current, session
            if old is not None and old is not session and not old.users:
                old.client.close()
            session.users += 1
        try:
            yield session
        finally:
            with self._lock:
                session.users -= 1
                is_last = session is not self._current and not session.users
            if is_last:
                session.client.close()

    def renew(self, session: Session) -> bool:
        """Drop credentials that the server has refused.

        Parameters
        ----------
        session : Session

        Returns
        -------
        bool
            Whether another attempt may have others.
        """
        if self._is_renewable:
            session.expires = -float("inf")
        return self._is_renewable

    def close(self) -> None:
        """Close all connections."""
        if self._current is not None:
            self._current.client.close()
