"""HTTP for health checks, metrics and extenders, by a thread for each connection, over TLS or plain.

What a client can take up is limited by what it has sent, and never by what it says that it will send.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, BytesIO, RawIOBase
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moorage.store.api.reloaded import Reloaded

logger = logging.getLogger("moorage.serve")

TIMEOUT = 10.0
"""Seconds that a client has for the handshake, and for a request."""
LINGER = 2.0
"""Seconds for which what follows a refused request is dropped."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Addresses that this machine alone reaches."""
CONNECTIONS = 256
"""Connections at once, of which one client gets half; further ones are closed."""
PIECE = 1 << 16
"""Bytes of a body that are read at once at most."""
HEAD = 1 << 20
"""Bytes that the head of a request may have, beside other requests of its client."""
HEALTH = ("/healthz", "/livez", "/readyz")
"""Paths that everybody may get."""
STATE = (*HEALTH, "/metrics")
TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
Check = Callable[[], bool]


class NoRoomError(Exception):
    """A client has sent more than its share."""


class Shares:
    """Something that clients share: each may hold as much as is free, so that some is left for the next.

    One client gets half, two get a third each (Choudhury and Hahne, Dynamic queue length thresholds in a
    shared-memory packet switch, 1998). Thread-safe.

    Parameters
    ----------
    size : int
        How much there is.

    Attributes
    ----------
    free : int
        How much of it nobody holds.
    """

    def __init__(self, size: int) -> None:
        self.free, self._held, self._lock = size, Counter[str](), Lock()

    def take(self, client: str, amount: int) -> bool:
        """Return whether the client may have so much more; then it has."""
        with self._lock:
            may_have = self._held[client] + amount <= self.free - amount
            if may_have:
                self._held[client] += amount
                self.free -= amount
            return may_have

    def give_back(self, client: str, amount: int) -> None:
        """Take so much from what the client holds; the rest stays its own."""
        with self._lock:
            self.free += amount
            self._held[client] -= amount
            if not self._held[client]:
                del self._held[client]


class HttpServer(ThreadingHTTPServer):
    """Serves in a thread of its own until it is closed.

    Parameters
    ----------
    address : (str, int)
        Where to listen; port 0 for any.
    context : Reloaded of ssl.SSLContext or None
        Without one it is plain HTTP.
    max_body : int, optional
        Bytes that the body of a request may have. Requests that are being read or answered take up at most
        twice the bytes of the largest one.

    Attributes
    ----------
    port : int
        On which it listens.
    connections, memory : Shares
        What clients may hold: connections, and bytes of requests.
    alive, ready : mapping of str to callable
        The checks of ``/livez`` and ``/healthz``, and those of ``/readyz``, by name; each returns whether it
        passes.
    metrics : callable
        Returns the text of ``/metrics``.
    patience : float
        Seconds for a request to arrive.
    """

    alive: Mapping[str, Check] = {}
    ready: Mapping[str, Check] = {}
    metrics: Callable[[], bytes] = bytes
    patience = TIMEOUT

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[Handler],
        context: Reloaded[ssl.SSLContext] | None,
        max_body: int = 0,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._context, self.max_body = context, max_body
        self.connections, self.memory = Shares(CONNECTIONS), Shares(2 * (HEAD + max_body))
        super().__init__(address, handler)
        self.port: int = self.server_port
        self._thread = Thread(target=self.serve_forever, args=(0.1,), name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection by a thread; one too many is closed."""
        if not self.connections.take(client_address[0], 1):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # as when there can be no more threads
            self.connections.give_back(client_address[0], 1)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.give_back(client_address[0], 1)

    def server_bind(self) -> None:
        """Listen, without looking up a name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the thread of the connection, so that a slow client delays no other."""
        request.settimeout(TIMEOUT)
        handler: Any = self.RequestHandlerClass
        if self._context is None:
            handler(request, client_address, self)
            return
        with self._context.get().wrap_socket(request, server_side=True) as secure:
            handler(secure, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what has ended a connection, unless the client has: by breaking off, or without TLS."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("a connection has failed: client=%s", client_address[0])


class RequestReader(RawIOBase):
    """Reads a connection up to a moment, however small the parts are that the client sends, and counts them.

    Attributes
    ----------
    until : float
        By ``time.monotonic``.
    """

    def __init__(self, connection: socket.socket, memory: Shares, client: str) -> None:
        self._connection, self._memory, self._client = connection, memory, client
        self._held = 0
        self.until = time.monotonic() + TIMEOUT

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, into a buffer.

        Raises
        ------
        TimeoutError
            The moment has come.
        NoRoomError
            The client has sent more than its share.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if not self._memory.take(self._client, count):
            raise NoRoomError("the client has sent more than its share")
        self._held += count
        return count

    def forget(self) -> None:
        """Count what was read no more."""
        self._memory.give_back(self._client, self._held)
        self._held = 0


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of a connection, each with a time limit as a whole.

    Attributes
    ----------
    idle : float
        Seconds for the next request to begin.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer are one write
    idle = TIMEOUT
    server: HttpServer

    def setup(self) -> None:
        super().setup()
        self._reader = RequestReader(self.connection, self.server.memory, self.client_address[0])
        self.rfile = self._buffered = BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request, and serve it."""
        self._reader.until = time.monotonic() + self.idle
        try:
            with suppress(TimeoutError, NoRoomError):
                if self._buffered.peek(1):
                    self._reader.until = time.monotonic() + self.server.patience
                    super().handle_one_request()
                    return
            self.close_connection = True
        finally:
            self._reader.forget()

    def parse_request(self) -> bool:
        """Read the head of a request; its path and query follow from the address."""
        if not super().parse_request():
            return False
        try:
            self.url = urlsplit(self.path)
        except ValueError:
            self.send_error(400, "Bad address")
            return False
        return True

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer every method, for which the server looks as ``do_METHOD``."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self.answer

    def answer(self) -> None:
        """Answer the request, whose head was read."""
        raise NotImplementedError

    def send_state(self) -> None:
        """Answer a path of `HEALTH`, or with the metrics."""
        path = self.url.path
        if path in HEALTH:
            checks = self.server.ready if path == "/readyz" else self.server.alive
            self.send(*health_answer(path[1:], checks, parse_qs(self.url.query, keep_blank_values=True)))
        else:
            self.send(200, self.server.metrics(), METRICS)

    def bearer(self) -> str:
        """Return the token of the request; "" without one."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def send(self, status: int, body: str | bytes, type: str = TEXT, *headers: tuple[str, str]) -> None:
        """Answer; to HEAD without the body."""
        self.connection.settimeout(self.server.patience)
        body = body if isinstance(body, bytes) else body.encode()
        own = ("Content-Type", type), ("Content-Length", str(len(body)))
        self.send_response(status)
        for name, value in (*own, ("X-Content-Type-Options", "nosniff"), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        """Answer without having read the body, so the connection cannot be used again.

        What still comes is dropped for a moment: a connection that is closed over it is reset, and its client
        may lose the answer.
        """
        self._reader.forget()
        self.send(status, f"{text}\n", TEXT, *headers, ("Connection", "close"))
        self.wfile.flush()
        until = time.monotonic() + LINGER
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                self.connection.settimeout(left)
                if not self.connection.recv(1 << 16):
                    return

    def read_body(self) -> bytes | None:
        """Return the body; None if the request was refused, or the client has broken off."""
        length = self._length()
        return None if length is None else self._read(length)

    def _read(self, length: int) -> bytes | None:
        try:
            with BytesIO() as body:
                while (left := length - body.tell()) and (piece := self._buffered.read1(min(left, PIECE))):
                    body.write(piece)
                if not left:
                    return body.getvalue()
                self.close_connection = True
        except TimeoutError:
            self.refuse(408, "the body of the request did not come in time")
        except NoRoomError:
            text = "requests of this client take up its share of the memory"
            self.refuse(503, text, ("Retry-After", "1"))
        return None

    def _length(self) -> int | None:
        """Return the length of the body; None if the request was refused."""
        lengths, most = set(self.headers.get_all("Content-Length", ())), self.server.max_body
        given = lengths.pop() if lengths else None
        if given is None or "Transfer-Encoding" in self.headers:
            self.refuse(411, "a request needs Content-Length, and may have no Transfer-Encoding")
        elif lengths or not (given.isascii() and given.isdigit()):
            self.refuse(400, f"Content-Length must be one number, not {given[:40]!r}")
        elif len(given) > len(str(most)) or int(given) > most:
            self.refuse(413, f"the request has {given[:40]} bytes, more than {most}")
        else:
            return int(given)
        return None

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def server_context(
    certificate: str, key: str, client_authorities: str | None = None
) -> Reloaded[ssl.SSLContext]:
    """Return the TLS of a server. Its files, in PEM, are read again when they change.

    Parameters
    ----------
    client_authorities : str, optional
        A certificate that a client shows has to be by one of these authorities; whether it has shown one, the
        handler has to ask.

    Raises
    ------
    OSError
        A file cannot be read.
    """

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if client_authorities is not None:
            context.load_verify_locations(client_authorities)
            context.verify_mode = ssl.CERT_OPTIONAL  # kubelet shows none when it asks for health
        return context

    context = Reloaded(make, [certificate, key, client_authorities or ""])
    context.get()
    return context


def health_answer(name: str, checks: Mapping[str, Check], query: Mapping[str, Any]) -> tuple[int, str]:
    """Return status and text of a health check.

    Parameters
    ----------
    query : mapping of str to object
        Of the request: ``verbose`` tells the checks also where all pass.
    """
    if unknown := query.keys() - {"verbose"}:
        return 400, f"not supported: {', '.join(sorted(unknown))}\n"
    results = {"ping": True} | {check: passes() for check, passes in checks.items()}
    marks = {True: ("+", "ok"), False: ("-", "failed: reason withheld")}
    lines = "".join(f"[{marks[passed][0]}]{check} {marks[passed][1]}\n" for check, passed in results.items())
    if not all(results.values()):
        return 500, f"{lines}{name} check failed\n"
    return 200, f"{lines}{name} check passed\n" if "verbose" in query else "ok"
