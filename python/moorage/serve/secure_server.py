"""HTTPS for health checks and metrics, by a thread for each connection."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader, RawIOBase
from threading import BoundedSemaphore, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moorage.store.api.reloaded import Reloaded

from .delegated_authorization import DelegatedAuthorization

TIMEOUT = 10.0
"""Seconds that a client has for the handshake, and for a request."""
MAX_CONNECTIONS = 256
"""Connections at once; further ones are closed."""
HEALTH = ("/healthz", "/livez", "/readyz")
"""Paths that everybody may get."""
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
Check = Callable[[], bool]


class SecureServer:
    """Serves the state of a scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        Where to listen; port 0 for any.
    certificate, key : str
        Files in PEM.
    authorization : DelegatedAuthorization
        Decides who may read metrics.
    metrics : callable
        Returns the text of all metrics.
    ready : mapping of str to callable
        Checks of ``/readyz``, by name; each returns whether it passes.
    alive : mapping of str to callable, optional
        Those of ``/livez`` and ``/healthz``.

    Attributes
    ----------
    port : int
        On which it listens.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        certificate: str,
        key: str,
        authorization: DelegatedAuthorization,
        metrics: Callable[[], bytes],
        ready: Mapping[str, Check],
        alive: Mapping[str, Check] | None = None,
    ) -> None:

        class Bound(_Handler):
            allow = staticmethod(authorization.status)
            render = staticmethod(metrics)
            checks = {"/readyz": ready, "/livez": alive or {}, "/healthz": alive or {}}

        self._http = HttpServer(address, Bound, server_context(certificate, key))
        self.port: int = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.1,), name="https", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def server_context(
    certificate: str, key: str, client_authorities: str | None = None
) -> Reloaded[ssl.SSLContext]:
    """Return the TLS of a server. Its files are read again when they change.

    Parameters
    ----------
    certificate, key : str
        Files in PEM.
    client_authorities : str, optional
        A file in PEM. A certificate that a client shows has to be by one of these authorities; whether it has
        shown one, the handler has to ask.

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


class HttpServer(ThreadingHTTPServer):
    """A thread for each connection, over TLS with a context, else plain."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        context: Reloaded[ssl.SSLContext] | None,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._context = context
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection by a thread; one too many is closed."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

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
        """A client that breaks off, or speaks no TLS, is no error of the server."""


class TimedReader(RawIOBase):
    """Reads a connection up to a moment, however small the parts are that the client sends.

    Attributes
    ----------
    until : float
        By ``time.monotonic``.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
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
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body does not wait until the head is acknowledged
    timeout = TIMEOUT
    allow: Callable[[str, str, str], tuple[int, str]]
    render: Callable[[], bytes]
    checks: Mapping[str, Mapping[str, Check]]

    def setup(self) -> None:
        """Read with a time limit for each request as a whole."""
        super().setup()
        self._reader = TimedReader(self.connection)
        self.rfile = BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Serve a request."""
        self._reader.until = time.monotonic() + TIMEOUT
        super().handle_one_request()

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.path in HEALTH:
            self._send(*health_answer(url.path[1:], self.checks[url.path], query))
            return
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        status, text = self.allow(url.path, "get", token.strip() if scheme.lower() == "bearer" else "")
        if status != 200:
            self._send(status, text)
        elif url.path == "/metrics":
            self._send(200, self.render(), _METRICS)
        else:
            self._send(404, "404 page not found\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _send(self, status: int, text: str | bytes, type: str = _TEXT) -> None:
        body = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def health_answer(name: str, checks: Mapping[str, Check], query: Mapping[str, Any]) -> tuple[int, str]:
    """Return status and text of a health check.

    Parameters
    ----------
    name : str
        Of the path.
    checks : mapping of str to callable
        By name; each returns whether it passes.
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
