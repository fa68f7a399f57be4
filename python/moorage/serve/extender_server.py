"""ExtenderServer: a scheduler extender over HTTP or mutual TLS, by a thread for each connection."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from threading import Thread
from urllib.parse import urlsplit

from .secure_server import HttpServer

logger = logging.getLogger("moorage.serve")

MAX_BODY = 128 << 20
"""Bytes of a request at most: enough for thousands of whole nodes."""
REQUEST_TIMEOUT = 30.0
"""Seconds between two parts of a request at most."""
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
        A file of certificates in PEM. Only clients with a certificate by one of them are served.
    prefix : str, optional
        The path of ``urlPrefix``, before the verbs.
    max_body : int, optional
        Bytes of a request at most.
    timeout : float, optional
        Seconds between two parts of a request at most.

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
    ) -> None:
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            if client_authorities is not None:
                context.load_verify_locations(client_authorities)
                context.verify_mode = ssl.CERT_REQUIRED

        class Bound(_Handler):
            answers = staticmethod(answer)
            path_prefix = "/" + prefix.strip("/") + "/" if prefix.strip("/") else "/"
            largest = max_body
            patience = timeout

        self._http = HttpServer(address, Bound)
        self._http.context = context
        self.port: int = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, args=(0.1,), name="extender", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer are one write
    timeout = IDLE_TIMEOUT
    answers: Answer
    path_prefix: str
    largest: int
    patience: float

    def do_POST(self) -> None:
        self.connection.settimeout(self.patience)
        try:
            length = self._length()
            if length is None:
                return
            body = self.rfile.read(length)
        except TimeoutError:
            self._refuse(408, "the body of the request did not come in time")
            return
        if len(body) < length:
            self.close_connection = True
            return
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
        self.connection.settimeout(self.timeout)

    def _length(self) -> int | None:
        """Return the length of the body; None if the request was refused."""
        given = self.headers.get("Content-Length")
        if given is None:
            self._refuse(411, "a request needs Content-Length")
        elif not (given.isascii() and given.isdigit()):
            self._refuse(400, f"Content-Length is no number: {given!r}")
        elif int(given) > self.largest:
            self._refuse(413, f"the request has {given} bytes, more than {self.largest}")
        else:
            return int(given)
        return None

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Refuse every other method: the server looks for ``do_METHOD``."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        text = f"method {self.command}: verbs of extenders are requested by POST"
        return lambda: self._refuse(405, text, ("Allow", "POST"))

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
