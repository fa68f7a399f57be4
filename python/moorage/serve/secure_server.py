"""HTTPS for health checks and metrics, by a thread for each connection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .delegated_authorization import DelegatedAuthorization

TIMEOUT = 10.0
"""Seconds that a client has for the handshake, and for each part of a request."""
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

    Attributes
    ----------
    port : int
        On which it listens.
    """

    def __init__(
        self,
        address: tuple[str, int],
        certificate: str,
        key: str,
        authorization: DelegatedAuthorization,
        metrics: Callable[[], bytes],
        ready: Mapping[str, Check],
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)

        class Bound(_Handler):
            allow = staticmethod(authorization.status)
            render = staticmethod(metrics)
            checks = dict(ready)

        self._http = HttpServer(address, Bound)
        self._http.context = context
        self.port: int = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.1,), name="https", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class HttpServer(ThreadingHTTPServer):
    """A thread for each connection, over TLS with a context, else plain.

    Parameters
    ----------
    address : (str, int)
    handler : type

    Attributes
    ----------
    context : SSLContext or None
    """

    daemon_threads = True
    context: ssl.SSLContext | None

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Listen, without looking up a name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the thread of the connection, so that a slow client delays no other."""
        request.settimeout(TIMEOUT)
        handler: Any = self.RequestHandlerClass
        if self.context is None:
            handler(request, client_address, self)
            return
        with self.context.wrap_socket(request, server_side=True) as secure:
            handler(secure, client_address, self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off, or speaks no TLS, is no error of the server."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT
    allow: Callable[[str, str, str], tuple[int, str]]
    render: Callable[[], bytes]
    checks: Mapping[str, Check]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.path in HEALTH:
            checks = self.checks if url.path == "/readyz" else {}
            self._send(*_health(url.path[1:], checks, query))
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
        self.wfile.write(body)


def _health(name: str, checks: Mapping[str, Check], query: Mapping[str, Any]) -> tuple[int, str]:
    """Return status and text of a health check."""
    if unknown := query.keys() - {"verbose"}:
        return 400, f"not supported: {', '.join(sorted(unknown))}\n"
    results = {"ping": True} | {check: passes() for check, passes in checks.items()}
    marks = {True: ("+", "ok"), False: ("-", "failed: reason withheld")}
    lines = "".join(f"[{marks[passed][0]}]{check} {marks[passed][1]}\n" for check, passed in results.items())
    if not all(results.values()):
        return 500, f"{lines}{name} check failed\n"
    return 200, f"{lines}{name} check passed\n" if "verbose" in query else "ok"
