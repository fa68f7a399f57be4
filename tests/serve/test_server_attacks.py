"""Attacks on each of the four servers: what they answer; others are served, and nothing is logged."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from tests.doors.cli import McpServer
from tests.doors.live import (
    DelegatedAuthorization,
    ExtenderServer,
    HttpConnection,
    Reply,
    SecureServer,
    TwinServer,
)
from tests.live.kit.certificates import Authority
from tests.store.api.wire_server import LIMIT, eventually

LARGE = Reply(200, b"x" * (64 << 20))
QUESTION = b"GET /v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""What starts a question at a twin."""


class Target(NamedTuple):
    """A server, a path that everybody may get, and the status of the answer there."""

    server: Any
    path: bytes
    status: int
    context: ssl.SSLContext | None = None

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.port), LIMIT, source_address=(source, 0))
        return (
            client if self.context is None else self.context.wrap_socket(client, server_hostname="localhost")
        )

    def get(self, headers: bytes = b"") -> bytes:
        return b"GET " + self.path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"

    def post(self, headers: bytes, body: bytes = b"") -> bytes:
        return b"POST " + self.path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body

    def statuses(self, sent: bytes) -> list[int]:
        """Send, then a request that is the last one; return the statuses of all answers."""
        with self.connect() as client:
            with suppress(ConnectionError, ssl.SSLEOFError):  # the server may have closed the connection
                client.sendall(sent + self.get(b"Connection: close\r\n"))
            return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received(client))]


def received(client: socket.socket) -> bytes:
    """Return what comes until the server ends the connection."""
    parts = []
    with suppress(ConnectionError, ssl.SSLEOFError):
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """Servers that do not wait for the rest of what they refuse: the tests send it whole, or never."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    Authority(folder).issue("server", "localhost", serves=True)
    files = str(folder / "server.crt"), str(folder / "server.key")
    twin = TwinServer(
        ("127.0.0.1", 0),
        lambda path, query, body: Reply(200, body),
        page={"/large": LARGE},
        alive={},
        ready={},
        metrics=bytes,
        max_body=1000,
    )
    extender = ExtenderServer(("127.0.0.1", 0), lambda verb, body: (200, body), max_body=1000)
    secure = SecureServer(("127.0.0.1", 0), *files, DelegatedAuthorization(None, None), bytes, {})
    tools = McpServer(("127.0.0.1", 0), lambda path, query, body: Reply(200, body))
    servers: tuple[Any, ...] = (twin, extender, secure, tools)
    for server in servers:
        server.linger = 0.05
    yield {
        "twin": Target(twin, b"/livez", 200),
        "extender": Target(extender, b"/livez", 200),
        "secure": Target(secure, b"/livez", 200, ssl.create_default_context(cafile=str(folder / "ca.crt"))),
        "tools": Target(tools, b"/none", 404),
    }
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    with serving(tmp_path_factory) as targets:
        yield targets


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    """Servers that wait for 50 ms."""
    with serving(tmp_path_factory) as targets:
        for target in targets.values():
            target.server.patience = 0.05
        yield targets


NAMES = ["twin", "extender", "secure", "tools"]


@pytest.fixture(params=NAMES)
def target(
    request: pytest.FixtureRequest, targets: dict[str, Target], caplog: pytest.LogCaptureFixture
) -> Iterator[Target]:
    yield targets[request.param]
    assert targets[request.param].statuses(b"") == [targets[request.param].status]
    assert caplog.records == []


def smuggled(target: Target, headers: bytes) -> bytes:
    """A request with a body that is another request."""
    return target.post(headers.replace(b"LENGTH", b"%d" % len(QUESTION)), QUESTION)


MALFORMED: dict[str, Callable[[Target], bytes]] = {
    "a space before the colon": lambda to: smuggled(to, b"Content-Length : LENGTH\r\n"),
    "a length and chunks": lambda to: smuggled(
        to, b"Content-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n"
    ),
    "chunks": lambda to: to.post(b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"),
    "chunks under another name": lambda to: smuggled(to, b"Transfer-Encoding: xchunked\r\n"),
    "two lengths": lambda to: smuggled(to, b"Content-Length: LENGTH\r\nContent-Length: 4\r\n"),
    "a length with a sign": lambda to: smuggled(to, b"Content-Length: +LENGTH\r\n"),
    "a negative length": lambda to: to.post(b"Content-Length: -1\r\n"),
    "a length of 5,000 digits": lambda to: to.post(b"Content-Length: " + b"9" * 5000 + b"\r\n"),
    "two hosts": lambda to: to.get(b"Host: evil.example\r\n"),
    "no host": lambda to: b"GET " + to.path + b" HTTP/1.1\r\n\r\n",
    "a large header": lambda to: to.get(b"X: " + b"x" * 512 * 1024 + b"\r\n"),
    "many headers": lambda to: to.get(b"X: y\r\n" * 65_536),
    "a large target": lambda to: b"GET /" + b"x" * 512 * 1024 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "HTTP/0.9": lambda to: b"GET " + to.path + b"\r\n\r\n",
    "a NUL in the target": lambda to: to.get().replace(to.path, b"/\0"),
    "a NUL in a header": lambda to: to.get(b"X: \0\r\n"),
    "TLS within the connection": lambda to: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
}


@pytest.mark.parametrize("attack", MALFORMED)
def test_what_is_no_request_ends_the_connection(target: Target, attack: str) -> None:
    """Nothing of what follows is answered."""
    assert target.statuses(MALFORMED[attack](target)) == [400]


REFUSED: dict[str, tuple[Callable[[Target], bytes], tuple[int, ...]]] = {
    # For the twin, the extender, the secure port and the tools.
    "a body that nobody reads": (
        lambda to: smuggled(to, b"Content-Length: LENGTH\r\n"),
        (404, 200, 405, 415),
    ),
    "a body that a page may send": (
        lambda to: smuggled(
            to, b"Content-Length: LENGTH\r\nContent-Type: text/plain\r\nOrigin: http://a\r\n"
        ),
        (403, 403, 405, 403),
    ),
    "a form of a page of another site": (
        lambda to: smuggled(to, b"Content-Length: LENGTH\r\nSec-Fetch-Site: cross-site\r\n"),
        (403, 403, 405, 403),
    ),
    "a name that leads to this machine": (
        lambda to: smuggled(to, b"Content-Length: LENGTH\r\n").replace(b"localhost", b"rebind.example"),
        (403, 403, 405, 403),
    ),
    "a body of GET": (
        lambda to: smuggled(to, b"Content-Length: LENGTH\r\n").replace(b"POST", b"GET", 1),
        (413, 413, 413, 413),
    ),
    "a body that is too large": (
        lambda to: to.post(b"Content-Type: application/json\r\nContent-Length: 99999999\r\n"),
        (404, 413, 405, 413),
    ),
    "100-continue before a body that is refused": (
        lambda to: to.post(b"Expect: 100-continue\r\nContent-Length: 99999999\r\n"),
        (404, 413, 405, 415),
    ),
    "an odd host": (lambda to: QUESTION.replace(b"localhost", b"["), (403, 403, 403, 403)),
    "an odd origin": (
        lambda to: QUESTION.replace(b"localhost", b"localhost\r\nOrigin: http://["),
        (403, 403, 403, 403),
    ),
    "a target with another host": (
        lambda to: QUESTION.replace(b"/v1/state", b"http://localhost/v1/state"),
        (404, 405, 403, 404),
    ),
    "the preface of HTTP/2": (lambda to: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (403, 403, 405, 403)),
    "a tunnel": (lambda to: to.get().replace(b"GET " + to.path, b"CONNECT a:80"), (405, 405, 405, 404)),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_what_is_refused_starts_no_question(targets: dict[str, Target], target: Target, attack: str) -> None:
    """There is one answer to it. What follows is answered as a request, or not at all."""
    make, expected = REFUSED[attack]
    at = list(targets.values()).index(target)
    first, *others = target.statuses(make(target))
    assert first == expected[at]
    assert others in ([], [target.status])


def test_requests_in_a_row_are_answered_in_a_row(target: Target) -> None:
    assert target.statuses(target.get() * 200) == [target.status] * 201


def test_an_upgrade_is_not_made(target: Target) -> None:
    headers = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    assert target.statuses(target.get(headers)) == [target.status] * 2


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET / HTTP/1.1\rHost: a\r\r"])
@pytest.mark.parametrize("name", NAMES)
def test_a_head_that_does_not_come_ends_the_connection(
    impatient: dict[str, Target], name: str, sent: bytes
) -> None:
    """Also after another request."""
    target = impatient[name]
    for before in (b"", target.get()):
        with target.connect() as client:
            client.sendall(before + sent)
            assert received(client).count(b"HTTP/1.1 ") == bool(before)


def test_a_body_that_does_not_come_is_refused(impatient: dict[str, Target]) -> None:
    for name, path in (("twin", b"/v1/check"), ("extender", b"/filter"), ("tools", b"/mcp")):
        target = impatient[name]
        with target.connect() as client:
            head = target.post(b"Content-Type: application/json\r\nContent-Length: 9\r\n", b"{")
            client.sendall(head.replace(target.path, path))
            assert received(client).startswith(b"HTTP/1.1 408")


def test_an_answer_that_nobody_reads_is_given_up(impatient: dict[str, Target]) -> None:
    twin = impatient["twin"]
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", twin.server.port))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1, socket.MSG_PEEK)  # the answer has begun
        assert eventually(lambda: twin.server.connections.free == 256)
        client.settimeout(LIMIT)
        assert len(received(client)) < len(LARGE.body)


def test_an_answer_that_is_read_slowly_comes_whole() -> None:
    """The time for reading begins anew with each part that is read, unless that is too small a part."""
    left, later = [1 << 20], list[Callable[[], None]]()
    connection = HttpConnection.__new__(HttpConnection)
    connection._served = SimpleNamespace(patience=1.0)
    connection.flow = Mock()
    connection.loop = Mock(call_later=lambda _, look: later.append(look))
    connection.transport = Mock(get_write_buffer_size=lambda: left[0])
    connection.pause_writing()
    for part, is_given_up in ((1 << 17, False), (1 << 16, False), (1, True)):
        left[0] -= part
        later[-1]()
        assert connection.transport.abort.called == is_given_up


def test_a_server_that_ends_gives_up_what_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    begun, ends = Event(), Event()

    def answer(verb: str, body: bytes) -> tuple[int, bytes]:
        begun.set()
        ends.wait(LIMIT)
        return 200, body

    server = ExtenderServer(("127.0.0.1", 0), answer, max_body=1000)
    with Target(server, b"/filter", 200).connect() as client:
        client.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        assert begun.wait(LIMIT)
        server.close()
        assert received(client) == b""
    ends.set()
    assert not [record for record in caplog.records if record.exc_info]


def test_a_client_that_sends_no_more_gets_its_answers(targets: dict[str, Target]) -> None:
    for name in ("twin", "extender", "tools"):
        with targets[name].connect() as client:
            client.sendall(targets[name].get() * 2)
            client.shutdown(socket.SHUT_WR)
            assert received(client).count(b"HTTP/1.1 %d" % targets[name].status) == 2


def test_a_client_that_ends_within_a_body_is_not_waited_for(targets: dict[str, Target]) -> None:
    part = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
    for before in (b"", targets["extender"].get()):
        with targets["extender"].connect() as client:
            client.sendall(before + part)
            client.shutdown(socket.SHUT_WR)
            assert received(client).count(b"HTTP/1.1 ") == bool(before)


def test_what_is_no_tls_gets_no_answer(targets: dict[str, Target], caplog: pytest.LogCaptureFixture) -> None:
    with targets["secure"]._replace(context=None).connect() as client:
        client.sendall(targets["secure"].get())
        assert b"HTTP" not in received(client)
    assert caplog.records == []


def test_a_flood_of_connections_leaves_some_for_others(target: Target) -> None:
    """Those of a client that are too many are closed, also before a handshake."""
    plain = target._replace(context=None)
    assert eventually(lambda: target.server.connections.free == 256)  # those of tests before are gone
    with ExitStack() as stack:
        for _ in range(127):
            stack.enter_context(plain.connect())
        assert eventually(lambda: target.server.connections.free == 129)
        other = stack.enter_context(target.connect("127.0.0.2"))
        other.sendall(target.get(b"Connection: close\r\n"))
        assert received(other).startswith(b"HTTP/1.1 %d" % target.status)
        stack.enter_context(plain.connect())
        with plain.connect() as last:
            assert received(last) == b""
    assert eventually(lambda: target.server.connections.free == 256)
