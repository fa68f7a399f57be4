"""An extender for tests: a real server on loopback that answers what a test tells it to."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.house.source import ROOT

CERTIFICATE = ROOT / "tests/data/extender.pem"
KEY = ROOT / "tests/data/extender.key"


@dataclass(frozen=True)
class Answer:
    """An answer word for word; `cut` leaves so many bytes at its end out and hangs up."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    cut: int = 0
    chunked: bool = False


class Silence:
    """No answer, until the server ends; with `head`, the head of one."""

    def __init__(self, head: bool = False) -> None:
        self.head = head


class HangUp:
    """The end of the connection in place of an answer."""


Reply = Answer | Silence | HangUp | Callable[[Any], Any] | dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Request:
    """What was asked; `client` tells connections apart."""

    verb: str
    message: Any
    headers: dict[str, str]
    client: tuple[str, int]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body does not wait until the head is acknowledged
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.open.append(self.connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        ours = self.server.extender
        request = Request(self.path.lstrip("/"), json.loads(body), dict(self.headers), self.client_address)
        ours.requests.append(request)
        reply = ours.replies.get(request.verb, Answer(status=404))
        if isinstance(reply, Silence | HangUp):
            if isinstance(reply, Silence):
                if reply.head:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
                self.server.ended.wait()
            self.close_connection = True
            return
        if callable(reply):
            reply = reply(request.message)
        self.answer(reply if isinstance(reply, Answer) else Answer(json.dumps(reply).encode()))

    def answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        body = answer.body[: len(answer.body) - answer.cut]
        size = max(7, len(body) // 100)
        for at in range(0, len(body), size) if answer.chunked else ():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size]))
        self.wfile.write((b"" if answer.cut else b"0\r\n\r\n") if answer.chunked else body)
        self.close_connection |= bool(answer.cut)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    extender: ExtenderServer

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.context = context
        self.ended = threading.Event()
        self.open: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        sock, address = super().get_request()
        if self.context is not None:
            try:
                sock = self.context.wrap_socket(sock, server_side=True)
            except OSError:
                sock.close()
                raise
        return sock, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone


class ExtenderServer:
    """Answers each verb with its reply: a value, a callable on the message, or an `Answer`.

    Attributes
    ----------
    requests : list of Request
        In the order in which they came.
    """

    def __init__(self, *, tls: bool = False, client_authority: str = "", **replies: Reply) -> None:
        self.replies: dict[str, Reply] = dict(replies)
        self.requests: list[Request] = []
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE, KEY)
            if client_authority:
                context.load_verify_locations(client_authority)
                context.verify_mode = ssl.CERT_REQUIRED
        self.server = _Server(context)
        self.server.extender = self
        self.port: int = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.ended.set()
        self.hang_up()
        self.server.server_close()
        self.thread.join()

    def hang_up(self) -> None:
        """End all connections."""
        for sock in self.server.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    @property
    def verbs(self) -> list[str]:
        """What was asked, in order."""
        return [request.verb for request in self.requests]
