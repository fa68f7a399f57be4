"""Whatever is sent to a server, no thread fails, memory is free again, and others are served."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.doors.live import ExtenderServer, ExtenderService, Reply, TwinServer
from tests.make import node
from tests.store.api.wire_server import LIMIT

from moorage import Scheduler
from moorage.kube import Cluster

MAX_BODY = 4096
LONG = b"<9>"
"""Stands for 5,000 digits."""
GOOD = b'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 31\r\n\r\n{"Pod": {}, "NodeNames": ["a"]}'
raw = st.binary(max_size=40)
number = st.sampled_from(
    [b"0", b"7", b"-1", b"+5", b"\xb2", b"1e3", LONG, b"4096", b"4097", b" 3 ", b"0x10", b""]
)
name = st.sampled_from(b"Content-Length Transfer-Encoding Expect Connection \xff :".split())
header = st.tuples(name | raw, st.sampled_from([b": ", b" : ", b""]), number | raw).map(b"".join)
body = st.sampled_from([
    b'{"Pod": {}, "NodeNames": ["a"]}', b'{"Pod": null}', b'{"Nodes": {"items": [7]}, "Pod": {}}', LONG, b"",
    b'{"NodeNameToVictims": {"a": null}, "Pod": {}}', b'{"PodName": "\\ud800", "Node": "a"}',
])  # fmt: skip
ODD = {
    "method": st.sampled_from([b"GET", b"HEAD", b"PUT", b"\xc4"]) | raw,
    "path": st.sampled_from([b"/bind", b"/v1/?\xff=%ff", b"/livez?a=%ff", b"http://[", b"*", b""]) | raw,
    "version": st.sampled_from([b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1e", b""]),
    "length": number,
    "headers": st.lists(header, max_size=3).map(b"\r\n".join),
    "body": body | raw,
    "end": st.sampled_from([b"\n", b"\r"]),
}


@st.composite
def requests(draw: Any) -> bytes:
    """A request of which some parts are odd."""
    parts = {
        "method": b"POST",
        "path": draw(st.sampled_from([b"/filter", b"/v1/check?a=b"])),
        "version": b"HTTP/1.1",
        "end": b"\r\n",
        "body": draw(body),
    }
    parts |= {"length": b"%d" % len(parts["body"]), "headers": b"Host: localhost"}
    for part in draw(st.sets(st.sampled_from(list(ODD)), max_size=3)):
        parts[part] = draw(ODD[part])
    line = b" ".join((parts["method"], parts["path"], parts["version"]))
    length = b"Content-Length: " + parts["length"]
    return parts["end"].join((line, length, parts["headers"], b"", parts["body"]))


def echo(path: str, query: list[tuple[str, str]], body: bytes) -> Reply:
    return Reply(200, body)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[bytes, Any]]:
    """By a path that they serve."""
    answer = ExtenderService(Scheduler(Cluster(nodes=[node("a")]))).answer
    extender = ExtenderServer(("127.0.0.1", 0), answer, max_body=MAX_BODY, timeout=LIMIT)
    twin = TwinServer(("127.0.0.1", 0), echo, alive={}, ready={}, metrics=bytes, max_body=MAX_BODY)
    yield {b"/filter": extender, b"/v1/check": twin}
    extender.close()
    twin.close()


def exchange(server: Any, sent: bytes) -> bytes:
    """Send, and read until the server has ended the connection, and so counts it no more."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                received += piece
        except TimeoutError:
            raise
        except OSError:
            pass  # the server has ended it already
    return received


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(b"POST http://[ HTTP/1.1\r\n\r\n")
@example(b"POST /filter HTTP/1.1\r\nContent-Length: <9>\r\n\r\n")
@example(b"POST /filter HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n")
@given(st.lists(requests(), min_size=1, max_size=3).map(b"".join))
def test_whatever_is_sent(servers: dict[bytes, Any], caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    for path, server in servers.items():
        exchange(server, sent.replace(LONG, b"9" * 5000))
        answer = exchange(server, GOOD % path)
        assert (answer[:12], b'"NodeNames":["a"]' in answer.replace(b" ", b"")) == (b"HTTP/1.1 200", True)
        assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
        assert server.memory.free == 2 * MAX_BODY
