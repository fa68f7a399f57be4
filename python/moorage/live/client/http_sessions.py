"""HTTP sessions that carry the user's credentials; a new one takes over when these change."""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from urllib.parse import quote, urlencode

import httpx2

from moorage.store.errors import NotSentError

from .reloaded import Reloaded

READ_TIMEOUT = 30.0
"""Seconds without a byte of an answer after which a request has failed."""
KEPT = 5.0
"""Seconds for which a connection stays open without a request."""
JSON = "application/json"


class GuardedBody:
    """The body of a write, which is sent only if it may be at that moment: until a connection is open, much
    time may pass. The server does nothing before the body has come."""

    def __init__(self, body: bytes, may_write: Callable[[], bool]) -> None:
        self._body, self._may_write = body, may_write

    def __len__(self) -> int:
        return len(self._body)

    def __iter__(self) -> Iterator[bytes]:
        check_may_write(self._may_write)
        yield self._body


def check_may_write(may_write: Callable[[], bool]) -> None:
    """Raise NotSentError unless this may be."""
    if not may_write():
        raise NotSentError("not sent: the Lease is not held")


_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Without it, each transport would read the authorities of the system, which takes 40 ms."""


def _plain() -> httpx2.BaseTransport:
    return httpx2.HTTPTransport(verify=_NO_AUTHORITIES, trust_env=False)


class Session:
    """HTTP/1.1 to one server, and what is known of the credentials. Thread-safe.

    A client of httpx2 would take a quarter more processor time for a request, for cookies, redirects and the
    like: so a transport is asked itself. A transport looks at all of its connections for each request. So
    each has one request at a time, and the last that was used is the next: what a burst has opened besides is
    closed soon.

    Parameters
    ----------
    url : str
        Of the server; paths are below it.
    transport : callable, optional
        Returns another transport; by default one without TLS.
    headers : sequence of (str, str), optional
        Of each request.
    timeout : float, optional
        Seconds without a byte after which a request has failed.
    expires : float, optional
        Seconds since 1970 until which the credentials count.

    Attributes
    ----------
    timeout, expires : float
    users : int
        The number of requests in it.
    """

    def __init__(
        self,
        url: str,
        transport: Callable[[], httpx2.BaseTransport] = _plain,
        *,
        headers: Sequence[tuple[str, str]] = (),
        timeout: float = READ_TIMEOUT,
        expires: float = float("inf"),
    ) -> None:
        self._url = httpx2.URL(url)
        self._folder = self._url.raw_path.rstrip(b"/").decode()
        self._make_transport = transport
        self._idle = deque[tuple[httpx2.BaseTransport, float]]()  # and since when
        self._lock = Lock()
        self._headers = [("Accept", JSON), ("Accept-Encoding", "identity"), *headers]
        self.timeout, self.expires = timeout, expires
        self.users = 0

    @contextmanager
    def send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: bytes | GuardedBody | None = None,
        content_type: str = JSON,
        *,
        silence: float | None = None,
    ) -> Iterator[httpx2.Response]:
        """Send a request; the answer is open during the block, and not read yet.

        Parameters
        ----------
        params : mapping of str to str, optional
            The parameters of the query.
        content_type : str, optional
            Of the body.
        silence : float, optional
            Seconds without a byte of the answer, instead of `timeout`.
        """
        query = f"?{urlencode(params)}" if params else ""
        url = self._url.copy_with(raw_path=f"{self._folder}{quote(path)}{query}".encode())
        headers = self._headers
        if body is not None:
            headers = [*headers, ("Content-Type", content_type), ("Content-Length", str(len(body)))]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self.timeout)
        if silence is not None:
            limits["read"] = silence
        request = httpx2.Request(method, url, headers=headers, content=body, extensions={"timeout": limits})
        with self._transport() as transport:
            response = transport.handle_request(request)
            try:
                yield response
            finally:
                with suppress(Exception):
                    response.close()

    @contextmanager
    def _transport(self) -> Iterator[httpx2.BaseTransport]:
        """Keep a transport from other requests during the block."""
        with self._lock:
            transport = self._idle.pop()[0] if self._idle else self._make_transport()
        try:
            yield transport
        finally:
            now, unused = time.monotonic(), list[httpx2.BaseTransport]()
            with self._lock:
                self._idle.append((transport, now))
                while self._idle[0][1] < now - KEPT:
                    unused.append(self._idle.popleft()[0])
            for one in unused:
                one.close()

    def close(self) -> None:
        """Close all connections, of which none is in use."""
        while self._idle:
            self._idle.pop()[0].close()


class HttpSessions:
    """Gives each request a session with the credentials of the moment. Thread-safe.

    A connection belongs to the client certificate that it began with, so new credentials need a new session.
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
        self._is_closed = False

    @contextmanager
    def use(self) -> Iterator[Session]:
        """Keep a session open during the block."""
        with self._lock:
            if self._is_closed:
                raise NotSentError("the client is closed")
            session = self._sessions.get(lambda one: one.expires <= self._now())
            old, self._current = self._current, session
            if old is not None and old is not session and not old.users:
                old.close()
            session.users += 1
        try:
            yield session
        finally:
            with self._lock:
                session.users -= 1
                is_last = (self._is_closed or session is not self._current) and not session.users
            if is_last:
                session.close()

    def renew(self, session: Session) -> bool:
        """Drop credentials that the server has refused.

        Returns
        -------
        bool
            Whether another attempt may have others.
        """
        if self._is_renewable:
            session.expires = -float("inf")
        return self._is_renewable

    def close(self) -> None:
        """Close all connections, those in use after their requests; no more are made."""
        with self._lock:
            self._is_closed, session = True, self._current
            is_idle = session is not None and not session.users
        if session is not None and is_idle:
            session.close()
