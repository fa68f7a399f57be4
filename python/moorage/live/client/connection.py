"""Requests to an API server, in bytes: retries, typed errors and streams of lines."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from threading import Event
from typing import Literal, TypeAlias

import httpx2

from moorage.store.errors import ApiError, NotSentError, UnreachableError

from .http_sessions import JSON, GuardedBody, HttpSessions, Session, check_may_write
from .rate_limit import RateLimit
from .server_errors import error_of, status_of

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Params: TypeAlias = Mapping[str, str]
Sleep: TypeAlias = Callable[[float], object]
"""Takes seconds, and lets them pass."""
Wait: TypeAlias = Callable[[Event, float], bool]
"""Lets seconds pass, unless an event is set before; returns whether it is."""

RETRIES = 10
"""How often a request is repeated that the server has put off (client-go v0.36, rest/request.go)."""
RECONNECTS = 3
"""How often a read is repeated after its connection has broken."""
STREAM_TIMEOUT = 35.0
"""The same for a watch, which the server is asked to end before (see `MAX_TIMEOUT`)."""
MAX_RETRY_AFTER = 60.0
"""Seconds that a request waits at most, whatever the server asks for."""
MAX_LINE = 64 << 20
"""Bytes of a line of a stream: far more than an object of etcd has."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_UNAUTHORIZED = 401


class Stream:
    """The lines of an answer that does not end.

    Parameters
    ----------
    response : httpx2.Response
        Open.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        try:
            for piece in self._response.iter_bytes():
                *lines, rest = (rest + piece).split(b"\n")
                yield from filter(None, lines)
                if len(rest) > MAX_LINE:
                    raise UnreachableError(f"a line has more than {MAX_LINE} bytes")
        except Exception as error:
            raise _unreachable("the stream broke off", error) from None
        if rest.strip():
            raise UnreachableError("the stream broke off in the middle of a line")

    def interrupt(self) -> None:
        """End the stream; may be called by another thread, whose reading then fails."""
        stream = self._response.extensions.get("network_stream")
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class Connection:
    """Sends requests to one API server. Thread-safe.

    A request that the server puts off (429, or 5xx with ``Retry-After``) is repeated after the time that the
    server names. A read whose connection breaks is repeated; a write is not, because it may have taken
    effect. Whatever else fails, such as a command that tells credentials, is an UnreachableError as well.

    Parameters
    ----------
    http : HttpSessions or Session
        With the server's address and the user's credentials.
    sleep : callable, optional
        Takes seconds, and lets them pass.
    clock : callable, optional
        Returns seconds, for what is measured between two moments.
    wait : callable, optional
        As `sleep`, for what an event may end.

    Attributes
    ----------
    sleep, clock, wait : callable
    limit : RateLimit or None
        Of requests per second; None, the default, for none.
    repeats : bool
        Whether requests are repeated; True by default.
    may_write : callable or None
        Asked after all waits of a write, and again when its body is sent: while it returns False, none is.
    requests : int
        The number of requests that were sent.
    refused_since : float or None
        When, by `clock`, the credentials began to be refused or could not be had; None while they are good.
    """

    def __init__(
        self,
        http: HttpSessions | Session,
        sleep: Sleep = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = Event.wait,
    ) -> None:
        self._sessions = http if isinstance(http, HttpSessions) else HttpSessions(lambda: http)
        self.sleep = sleep
        self.clock = clock
        self.wait = wait
        self.limit: RateLimit | None = None
        self.repeats = True
        self.may_write: Callable[[], bool] | None = None
        self.requests = 0
        self.refused_since: float | None = None

    def throttled(self) -> int:
        """Return how many requests wait for `limit`."""
        return 0 if self.limit is None else self.limit.waiting()

    def _send_off(self, method: Method) -> None:
        """Count a request, and wait until it may be sent."""
        self.requests += 1
        if self.limit is not None and (seconds := self.limit.delay()) > 0:
            self.sleep(seconds)
        if method != "GET" and self.may_write is not None:
            check_may_write(self.may_write)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Keep a session open during the block; its credentials may fail to be had."""
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self._sessions.use())
            except Exception as error:
                self._judge(_UNAUTHORIZED)
                raise NotSentError(f"no credentials: {_text(error)}") from None
            yield session

    def _judge(self, status: int) -> None:
        """Note whether the credentials are good."""
        if status != _UNAUTHORIZED:
            self.refused_since = None
        elif self.refused_since is None:
            self.refused_since = self.clock()

    def request(
        self,
        method: Method,
        path: str,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Send a request, and return the body of the answer.

        Parameters
        ----------
        method : {"GET", "POST", "PUT", "PATCH", "DELETE"}
        path : str
            Such as ``/api/v1/nodes``.
        params : mapping of str to str, optional
            The parameters of the query.
        content_type : str, optional
            Of the body.

        Raises
        ------
        ApiError
            The answer was no success, or there was none (UnreachableError).
        """
        broken = put_off = 0
        is_renewed = False
        content = body if body is None or self.may_write is None else GuardedBody(body, self.may_write)
        while True:
            self._send_off(method)
            with self._session() as session:
                response: httpx2.Response | None = None
                try:
                    with session.send(method, path, params, content, content_type) as response:
                        response.read()
                except Exception as error:
                    response = None
                    broken += 1
                    if method != "GET" or broken > RECONNECTS or not self.repeats:
                        raise _unreachable(f"{method} {path}", error) from None
                if response is not None:
                    self._judge(response.status_code)
                    is_refused = response.status_code == _UNAUTHORIZED
                    if is_refused and self._sessions.renew(session) and not is_renewed:
                        is_renewed = True
                        continue
            if response is None:
                self.sleep(min(0.1 * 2**broken, 1.0))
                continue
            if response.is_success:
                return response.content
            seconds = _retry_after(response) if self.repeats else None
            if seconds is None or put_off == RETRIES:
                raise error_of(status_of(response.content, response.status_code))
            put_off += 1
            self.sleep(seconds)

    @contextmanager
    def stream(self, path: str, params: Params) -> Iterator[Stream]:
        """Read an answer line by line.

        Raises
        ------
        ApiError
            See `request`. Nothing is repeated.
        """
        self._send_off("GET")
        with self._session() as session, ExitStack() as opened:
            try:
                response = opened.enter_context(session.send("GET", path, params, silence=STREAM_TIMEOUT))
                self._judge(response.status_code)
                body = b"" if response.is_success else response.read()
            except Exception as error:
                raise _unreachable(f"GET {path}", error) from None
            if not response.is_success:
                if response.status_code == _UNAUTHORIZED:
                    self._sessions.renew(session)
                raise error_of(status_of(body, response.status_code))
            yield Stream(response)

    def close(self) -> None:
        """Close all connections."""
        self._sessions.close()


def _unreachable(what: str, error: Exception) -> ApiError:
    """Return the error of a request that has failed without an answer, for whatever reason."""
    if isinstance(error, ApiError):
        return error
    is_sent = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
    return (UnreachableError if is_sent else NotSentError)(f"{what}: {_text(error)}")


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds after which a request may be repeated; None for never.

    As client-go reads it, the header is a decimal number; a negative one is no time.
    """
    status = response.status_code
    if status != 429 and status < 500:
        return None
    text = response.headers.get("Retry-After", "")
    if _NUMBER.fullmatch(text):
        return min(max(float(text), 0.0), MAX_RETRY_AFTER)
    return 1.0 if status == 429 else None
