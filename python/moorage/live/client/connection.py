"""Requests to an API server, in bytes: sessions, retries, typed errors and streams of lines."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from threading import Event, Lock
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import httpx2
import msgspec

from moorage.kube.apiserver.decode import UNREADABLE
from moorage.store.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    NotSentError,
    ResourceExpiredError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)

from ..http_common import JSON, Reloaded


class RateLimit:
    """Allows a number of requests per second, and some at once. Thread-safe.

    It is the bucket of tokens of client-go (v0.36, util/flowcontrol).

    Parameters
    ----------
    qps : float
        Requests per second; a negative number for no limit.
    burst : int
        Requests at once after a pause.
    clock : callable
        Returns seconds.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps, self._burst, self._clock = qps, burst, clock
        self._tokens, self._at = float(burst), clock()
        self._lock = Lock()

    def delay(self) -> float:
        """Take a token, and return the seconds to wait before the request may be sent."""
        if self._qps < 0:
            return 0.0
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1.0
            self._at = now
            return max(0.0, -self._tokens / self._qps)

    def waiting(self) -> int:
        """Return how many requests wait."""
        with self._lock:
            return max(0, ceil(-self._tokens - (self._clock() - self._at) * self._qps))


# ---- server errors -----------------------------------------------------------------------------------------

T = TypeVar("T")

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ResourceExpiredError,
    422: InvalidObjectError,
    429: TooManyRequestsError,
}


class StatusAnswer(msgspec.Struct):
    """What is read of a ``Status`` (meta/v1)."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


def status_of(body: bytes, code: int = 0) -> StatusAnswer:
    """Read the body of an answer that is no success.

    Parameters
    ----------
    code : int, optional
        The status code of HTTP.

    Returns
    -------
    StatusAnswer
        Where the body is no Status, as of a proxy, its text is the message.
    """
    try:
        status = msgspec.json.decode(body, type=StatusAnswer)
    except UNREADABLE:
        status = StatusAnswer()
    if status.kind != "Status":
        text = body[:200].decode(errors="replace").strip()
        return StatusAnswer(message=text or f"HTTP status {code}", code=code)
    return status if status.code else msgspec.structs.replace(status, code=code)


def read_answer(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str = "an answer") -> T:
    """Decode an answer that is no object of a kind, or a part of one.

    Raises
    ------
    ServerError
        It is of another form, as of a proxy.
    """
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ServerError(f"{what} of the API server cannot be read: {error}") from None


def error_of(status: StatusAnswer) -> ApiError:
    """Return the exception of a Status.

    Returns
    -------
    ApiError
        Of the subclass that the code and the reason name.
    """
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    return kind(status.message or f"HTTP status {status.code}")


# ---- http sessions -----------------------------------------------------------------------------------------

READ_TIMEOUT = 30.0
"""Seconds without a byte of an answer after which a request has failed."""
KEPT = 5.0
"""Seconds for which a connection stays open without a request."""


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
    timeout : float, optional
        Seconds without a byte after which a request has failed.
    expires : float, optional
        Seconds since 1970 until which the credentials count.

    Attributes
    ----------
    url : str
        As errors name the server.
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
        self.url = url.rstrip("/")
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
            for old in unused:
                old.close()

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
    """

    def __init__(
        self, make: Callable[[], Session], files: Sequence[str] = (), is_renewable: bool = False
    ) -> None:
        self._sessions, self._is_renewable = Reloaded(make, files), is_renewable
        self._lock = Lock()
        self._current: Session | None = None
        self._is_closed = False

    @contextmanager
    def use(self) -> Iterator[Session]:
        """Keep a session open during the block."""
        with self._lock:
            if self._is_closed:
                raise NotSentError("the client is closed")
            session = self._sessions.get(lambda current: current.expires <= time.time())
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
        """Drop credentials that the server has refused; return whether another attempt may have others."""
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


# ---- connection --------------------------------------------------------------------------------------------

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
    """The lines of an answer that does not end."""

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
                        raise _unreachable(f"{method} {session.url}{path}", error) from None
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
                raise _unreachable(f"GET {session.url}{path}", error) from None
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
