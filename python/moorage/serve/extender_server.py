"""ExtenderServer: a scheduler extender over HTTP or mutual TLS, by a thread for each connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from threading import Lock, Thread
from urllib.parse import parse_qs, urlsplit

from .secure_server import HEALTH, Check, HttpServer, TimedReader, health_answer, server_context

logger = logging.getLogger("moorage.serve")

MAX_BODY = 128 << 20
"""Bytes of a request at most: enough for thousands of whole nodes."""
ALL_BODIES = 256 << 20
"""Bytes of all requests at once at most, if one may not have more."""
REQUEST_TIMEOUT = 30.0
"""Maximum number of seconds for a request to arrive."""
IDLE_TIMEOUT = 120.0
"""Seconds that a connection is kept between two requests: longer than Go's client keeps it, so that no
request meets a connection that is being closed."""
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
Answer = Callable[[str, bytes], tuple[int, bytes]]


class ExtenderServer:
    """Answers the requests of kube-scheduler until it is closed.

    Parameters
    ----------
    address : (str, int)
        Where to listen; port 0 for any.
    answer : callable
        Takes a verb and the body of a request, returns status and body of the answer. It is called by several
        threads at once.
    certificate, key : str, optional
        Files in PEM; without them it is plain HTTP.
    client_authorities : str, optional
        A file of certificates in PEM. Only clients with a certificate by one of them are served, but for
        health checks.
    prefix : str, optional
        The path of ``urlPrefix``, before the verbs.
    max_body : int, optional
        Bytes of a request at most.
    timeout : float, optional
        Seconds that a request may take to arrive.
    health : mapping of str to callable, optional
        The checks of ``/healthz``, ``/livez`` and ``/readyz``, by name; each returns whether it passes.

    Attributes
    ----------
    port : int
        On which it listens.

    Raises
    ------
    OSError
        A file cannot be read, or the address cannot be used.
    """

    def __init__(  # noqa: PLR0913
        self,
        address: tuple[str, int],
        answer: Answer,
        *,
        certificate: str | None = None,
        key: str | None = None,
        client_authorities: str | None = None,
        prefix: str = "",
        max_body: int = MAX_BODY,
        timeout: float = REQUEST_TIMEOUT,
        health: Mapping[str, Check] | None = None,
    ) -> None:
        context = None
        if certificate is not None and key is not None:
            context = server_context(certificate, key, client_authorities)

        class Bound(_Handler):
            answers = staticmethod(answer)
            path_prefix = "/" + prefix.strip("/") + "/" if prefix.strip("/") else "/"
            largest = max_body
            patience = timeout
            checks = health or {}
            asks_certificates = client_authorities is not None
            room = BodyRoom(max(max_body, ALL_BODIES))

        self._http = HttpServer(address, Bound, context)
        self.port: int = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.1,), name="extender", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class BodyRoom:
    """The memory that bodies of requests may take at once. Thread-safe.

    Parameters
    ----------
    size : int
        Bytes.
    """

    def __init__(self, size: int) -> None:
        self._free, self._lock = size, Lock()

    @contextmanager
    def take(self, size: int) -> Iterator[bool]:
        """Take some of it during the block.

        Parameters
        ----------
        size : int
            Bytes.

        Yields
        ------
        bool
            Whether there was enough.
        """
        with self._lock:
            has_room = size <= self._free
            self._free -= size if has_room else 0
        try:
            yield has_room
        finally:
            with self._lock:
                self._free += size if has_room else 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer are one write
    answers: Answer
    path_prefix: str
    largest: int
    patience: float
    checks: Mapping[str, Check]
    asks_certificates: bool
    room: BodyRoom

    def setup(self) -> None:
        """Read with a time limit for each request as a whole."""
        super().setup()
        self._reader = TimedReader(self.connection)
        self.rfile = self._buffered = BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request, and serve it."""
        self._reader.until = time.monotonic() + IDLE_TIMEOUT
        with suppress(TimeoutError):
            if self._buffered.peek(1):
                self._reader.until = time.monotonic() + self.patience
                super().handle_one_request()
                return
        self.close_connection = True

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path not in HEALTH:
            self._refuse_method()
            return
        query = parse_qs(url.query, keep_blank_values=True)
        status, text = health_answer(url.path[1:], self.checks, query)
        self._send(status, text.encode(), _TEXT)

    def do_POST(self) -> None:
        if self.asks_certificates and not self.connection.getpeercert():
            self._refuse(403, "a client certificate is needed")
            return
        length = self._length()
        if length is None:
            return
        with self.room.take(length) as has_room:
            if has_room:
                self._read_and_answer(length)
            else:
                self._refuse(503, "other requests take up the memory for bodies", ("Retry-After", "1"))

    def _read_and_answer(self, length: int) -> None:
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            self._refuse(408, "the body of the request did not come in time")
            return
        if len(body) < length:
            self.close_connection = True
            return
        self.connection.settimeout(self.patience)
        path = urlsplit(self.path).path
        if not path.startswith(self.path_prefix):
            self._send(404, f"no such path: the verbs are below {self.path_prefix}\n".encode(), _TEXT)
            return
        try:
            status, answer = self.answers(path[len(self.path_prefix) :], body)
        except Exception:
            logger.exception("%s was not answered", path)
            status, answer = 500, b"internal error\n"
        self._send(status, answer, _JSON if status == 200 else _TEXT)
        self.wfile.flush()

    def _length(self) -> int | None:
        """Return the length of the body; None if the request was refused."""
        given = self.headers.get("Content-Length")
        if given is None:
            self._refuse(411, "a request needs Content-Length")
        elif not (given.isascii() and given.isdigit()):
            self._refuse(400, f"Content-Length must be a number, not {given!r}")
        elif int(given) > self.largest:
            self._refuse(413, f"the request has {given} bytes, more than {self.largest}")
        else:
            return int(given)
        return None

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Refuse every other method: the server looks for ``do_METHOD``."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._refuse_method

    def _refuse_method(self) -> None:
        text = f"method {self.command}: verbs of extenders are requested by POST"
        self._refuse(405, text, ("Allow", "POST"))

    def _refuse(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        """Answer without having read the body, so the connection cannot be used again."""
        self._send(status, f"{text}\n".encode(), _TEXT, *headers, ("Connection", "close"))
        self.close_connection = True

    def _send(self, status: int, body: bytes, type: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", type), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
