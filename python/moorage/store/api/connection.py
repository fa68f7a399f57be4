"""Requests to an API server, in bytes: retries, typed errors and streams of lines."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

import httpx2

from moorage.store.errors import UnreachableError

from .rate_limit import RateLimit
from .server_errors import error_of, status_of

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Params: TypeAlias = Mapping[str, str]
Sleep: TypeAlias = Callable[[float], object]
"""Takes seconds, and lets them pass."""

RETRIES = 10
"""How often a request is repeated that the server has put off (client-go v0.36, rest/request.go)."""
RECONNECTS = 3
"""How often a read is repeated after its connection has broken."""
READ_TIMEOUT = 60.0
"""Seconds without a byte of an answer after which a request has failed."""
STREAM_TIMEOUT = 180.0
"""The same for a watch; the server sends a bookmark about every minute."""
_PUT_OFF = frozenset({429, 503})
_JSON = "application/json"


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
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise UnreachableError(f"the stream broke off: {error or type(error).__name__}") from None
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

    A request that the server puts off (429, or 503 with ``Retry-After``) is repeated after the time that the
    server names. A read whose connection breaks is repeated; a write is not, because it may have taken
    effect.

    Parameters
    ----------
    http : httpx2.Client
        With the server's address and the user's credentials.
    sleep : callable, optional
        Takes seconds, and lets them pass.
    clock : callable, optional
        Returns seconds, for what is measured between two moments.

    Attributes
    ----------
    sleep, clock : callable
    limit : RateLimit or None
        Of requests per second; None, the default, for none.
    requests : int
        The number of requests that were sent.
    """

    def __init__(
        self, http: httpx2.Client, sleep: Sleep = time.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._http = http
        self.sleep = sleep
        self.clock = clock
        self.limit: RateLimit | None = None
        self.requests = 0

    def _send_off(self) -> None:
        """Count a request, and wait until it may be sent."""
        self.requests += 1
        if self.limit is not None and (seconds := self.limit.delay()) > 0:
            self.sleep(seconds)

    def request(
        self,
        method: Method,
        path: str,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        """Send a request, and return the body of the answer.

        Parameters
        ----------
        method : {"GET", "POST", "PUT", "PATCH", "DELETE"}
        path : str
            Such as ``/api/v1/nodes``.
        params : mapping of str to str, optional
            The parameters of the query.
        body : bytes, optional
        content_type : str, optional
            Of the body.

        Returns
        -------
        bytes

        Raises
        ------
        ApiError
            The answer was no success, or there was none (UnreachableError).
        """
        headers = {"Accept": _JSON} | ({"Content-Type": content_type} if body is not None else {})
        broken = put_off = 0
        while True:
            self._send_off()
            try:
                response = self._http.request(method, path, params=params, content=body, headers=headers)
            except httpx2.HTTPError as error:
                broken += 1
                if method != "GET" or broken > RECONNECTS:
                    raise UnreachableError(f"{method} {path}: {error or type(error).__name__}") from None
                self.sleep(min(0.1 * 2**broken, 1.0))
                continue
            if response.is_success:
                return response.content
            seconds = _retry_after(response)
            if seconds is None or put_off == RETRIES:
                raise error_of(status_of(response.content, response.status_code))
            put_off += 1
            self.sleep(seconds)

    @contextmanager
    def stream(self, path: str, params: Params) -> Iterator[Stream]:
        """Read an answer line by line.

        Parameters
        ----------
        path : str
        params : mapping of str to str

        Yields
        ------
        Stream

        Raises
        ------
        ApiError
            See `request`. Nothing is repeated.
        """
        self._send_off()
        timeout = httpx2.Timeout(READ_TIMEOUT, read=STREAM_TIMEOUT)
        try:
            request = self._http.build_request(
                "GET", path, params=params, headers={"Accept": _JSON}, timeout=timeout
            )
            response = self._http.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise UnreachableError(f"GET {path}: {error or type(error).__name__}") from None
        try:
            if not response.is_success:
                try:
                    body = response.read()
                except httpx2.HTTPError as error:
                    raise UnreachableError(f"GET {path}: {error or type(error).__name__}") from None
                raise error_of(status_of(body, response.status_code))
            yield Stream(response)
        finally:
            with suppress(httpx2.HTTPError, OSError):
                response.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds after which a request may be repeated; None for never."""
    if response.status_code not in _PUT_OFF:
        return None
    text = response.headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    return 1.0 if response.status_code == 429 else None
