"""A proxy of an API server that answers some requests with faults."""

from __future__ import annotations

import re
import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.live.kit.control_plane import ControlPlane

PIECE = 1 << 16


@dataclass
class Fault:
    """What happens to some requests, in place of what the server would do.

    Parameters
    ----------
    method, pattern : str
        Of the requests; "" for any method, "PUT|PATCH" for two. The pattern is searched in the path with its
        query.
    status : int, optional
        Of an answer in place of the server's.
    body : bytes, optional
        Of that answer; by default a Status of Kubernetes.
    headers : dict, optional
        Of that answer.
    cuts : bool, optional
        The connection ends without an answer.
    is_late : bool, optional
        The server gets the request before its answer is replaced or cut off.
    seconds : float, optional
        A wait before all that, until `over` is set. A fault that does nothing else then lets the request
        pass.
    every, skip, limit : int, optional
        Of the requests that match every so-manieth, after the first `skip`, `limit` times at most.
    """

    method: str
    pattern: str
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cuts: bool = False
    is_late: bool = False
    seconds: float = 0.0
    every: int = 1
    skip: int = 0
    limit: int = 1 << 30
    seen: int = 0
    hits: int = 0
    given_up: int = 0
    """Requests whose client did not wait for the answer."""
    over: threading.Event = field(default_factory=threading.Event)

    def takes(self, method: str, path: str) -> bool:
        """Whether it concerns this request, which is counted."""
        if (
            not re.fullmatch(self.method or ".*", method)
            or not re.search(self.pattern, path)
            or self.hits >= self.limit
        ):
            return False
        self.seen += 1
        is_hit = self.seen > self.skip and (self.seen - self.skip) % self.every == 0
        self.hits += is_hit
        return is_hit


class Request(NamedTuple):
    """A request that came, with its time by ``time.monotonic``."""

    time: float
    method: str
    path: str

    @property
    def is_binding(self) -> bool:
        return self.method == "POST" and self.path.partition("?")[0].endswith("/binding")


class FaultProxy:
    """Ends TLS, and passes requests on to an API server, in threads.

    Attributes
    ----------
    port : int
        Where it listens.
    faults : list of Fault
        The first that takes a request counts.
    requests : list of Request
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.is_over = threading.Event()
        self._lock = threading.Lock()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{plane.folder}/server.crt", f"{plane.folder}/server.key")

        class Bound(_Handler):
            proxy, target = self, plane.port

        self._http = _Server(("127.0.0.1", 0), Bound)
        # The handshake follows with the first read, in the thread of the connection.
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True).start()

    def fault_of(self, method: str, path: str) -> Fault | None:
        """Note a request, and return what is to happen to it."""
        with self._lock:
            self.requests.append(Request(time.monotonic(), method, path))
            return next((fault for fault in self.faults if fault.takes(method, path)), None)

    def end_faults(self) -> None:
        """Let through what waits, and what comes."""
        ended, self.faults = self.faults, []
        for fault in ended:
            fault.over.set()

    def bindings(self) -> list[Request]:
        """Those that came so far."""
        with self._lock:
            return [one for one in self.requests if one.is_binding]

    def close(self) -> None:
        self.is_over.set()
        self.end_faults()
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off ends its thread."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: FaultProxy
    target: int

    def setup(self) -> None:
        super().setup()
        self.far = HTTPSConnection("127.0.0.1", self.target, context=ssl._create_unverified_context())

    def finish(self) -> None:
        self.far.close()
        with suppress(OSError):
            super().finish()

    def relay(self) -> None:
        """Pass a request on, or do what a fault says."""
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # a server that reads it does nothing
            self._cut()
            return
        fault = self.proxy.fault_of(self.command, self.path)
        if fault is not None:
            if not self._wait(fault):
                self._cut()
                return
            if fault.is_late:
                self._ask(body).read()
            if fault.cuts:
                self._cut()
                return
            if fault.status:
                self._refuse(fault)
                return
        try:
            self._pass_on(self._ask(body))
        except (OSError, HTTPException):
            self._cut()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _wait(self, fault: Fault) -> bool:
        """Wait as a fault says; return whether the client has waited as well."""
        until = time.monotonic() + fault.seconds
        while time.monotonic() < until and not fault.over.wait(0.02):
            if select.select([self.connection], [], [], 0)[0]:  # nothing but its end can come
                fault.given_up += 1
                return False
        return True

    def _ask(self, body: bytes) -> HTTPResponse:
        try:
            self.far.request(self.command, self.path, body or None, dict(self.headers.items()))
            return self.far.getresponse()
        except (OSError, HTTPException):
            self.far.close()
            raise

    def _pass_on(self, answer: HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        if not answer.chunked:
            self.wfile.write(answer.read())
            return
        while piece := answer.read1(PIECE):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, fault: Fault) -> None:
        body = fault.body or (
            b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "a fault", "code": %d}'
            % fault.status
        )
        self.send_response_only(fault.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))} | fault.headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Handler, f"do_{verb}", _Handler.relay)
