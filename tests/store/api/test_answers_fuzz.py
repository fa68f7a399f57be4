"""Whatever a server answers, the client raises nothing but ApiError, no thread ends, and afterwards it knows
what the server has."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.doors.live import Session
from tests.store.api.test_api_client import pod
from tests.store.api.test_reflector import WRONG, wire_pod
from tests.store.api.wire_server import LIMIT, Handler, WireServer

from moorage.kube import Object, ObjectMeta, Pod, PodGroup
from moorage.live.client import ApiClient, Connection
from moorage.store import ApiError, InformerFactory, ObjectStore

raw = st.binary(max_size=30)
line = st.sampled_from([
    *(b"HTTP/1.1 %d X" % code for code in (100, 101, 200, 204, 302, 400, 401, 403, 404, 409, 410)),
    *(b"HTTP/1.1 %d X" % code for code in (422, 429, 500, 503)),
    b"HTTP/1.0 200 OK", b"HTTP/2 200", b"HTTP/1.1 2000 X", b"HTTP/1.1 -1", b"",
])  # fmt: skip
number = st.sampled_from(
    [b"\xb2", b"99999999999", b"9" * 30, b"-5", b"+1", b"1e3", b"1.5", b" ", b"Fri, 31 Dec 1999 23:59:59 GMT"]
)
header = st.one_of(
    number.map(lambda value: b"Retry-After: " + value),
    number.map(lambda value: b"Content-Length: " + value),
    st.sampled_from([
        b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Encoding: br",
        b"Content-Type: \xff; charset=\xff", b"Location: http://[", b"Connection: upgrade",
    ]),
    raw,
)  # fmt: skip
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(list(wire_pod())), inner),
    max_leaves=4,
)
status = st.fixed_dictionaries(
    {"kind": st.just("Status")},
    optional=dict.fromkeys(("code", "message", "reason", "details"), odd),
)
event = st.fixed_dictionaries(
    {"type": st.sampled_from(["ADDED", "DELETED", "ERROR", "BOOKMARK", "", None]), "object": odd | status}
)
listed = st.fixed_dictionaries(
    {"kind": st.sampled_from(["PodList", "PodGroupList", "APIResourceList", "APIGroup", ""])},
    optional=dict.fromkeys(("items", "metadata", "resources", "versions"), odd),
)
value = st.one_of(st.sampled_from(WRONG), odd, status, event, listed).map(
    lambda one: json.dumps(one).encode()
)
text = (
    value
    | raw
    | st.sampled_from([b"{" * 5000, b'{"a":' * 9999, b'"\\ud800"', b"\xef\xbb\xbf{}", b"1" * 5000])
)
body = st.lists(text, max_size=3).map(b"\n".join) | text.map(lambda one: one + b"\n")
answer = st.builds(
    lambda first, headers, rest: b"\r\n".join([first, *headers, b"", rest]),
    line,
    st.lists(header, max_size=2),
    body,
) | body.map(lambda rest: b"HTTP/1.1 200 OK\r\n\r\n" + rest)


def sends(data: bytes) -> Callable[[Handler], bool]:
    """A fault: these bytes, and the end of the connection."""

    def fault(handler: Handler) -> bool:
        handler.wfile.write(data)
        handler.cut()
        return True

    return fault


def group(name: str) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"))


class Log(logging.Handler):
    """Keeps the tracebacks that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.tracebacks: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.tracebacks.append(record.exc_info)


def check(answers: list[bytes]) -> None:
    store, slept, log = ObjectStore(lambda: 1000.0), list[float](), Log()
    store.create_many([pod("a"), group("a")])
    server = WireServer(store)
    logging.getLogger("moorage.serve").addHandler(log)
    try:
        connection = Connection(Session(server.url), sleep=slept.append, wait=lambda *_: False)
        with ApiClient(connection) as client:
            server.faults += map(sends, answers)
            informers = InformerFactory(client)
            kinds: list[type[Object]] = [Pod, PodGroup]
            copies = [informers.informer(kind).indexer for kind in kinds]
            calls: list[Callable[[], object]] = [
                informers.run_once,
                lambda: client.bind(pod("a"), "n"),
                lambda: client.get(Pod, "a", "default"),
                lambda: client.list(PodGroup),
                lambda: client.patch(Pod, "a", "default", {}),
                lambda: client.delete(PodGroup, "a", "default"),
            ]
            for call in calls:
                with suppress(ApiError):
                    call()
            server.faults.clear()
            server.cut()
            store.create_many([pod("b"), group("b")])
            while [copy.items() for copy in copies] != [
                {one.key: one for one in store.list(kind)[0]} for kind in kinds
            ]:
                seen = client.arrivals.count
                with suppress(ApiError):
                    if not informers.run_once():
                        client.arrivals.wait(seen, LIMIT)
            assert not any(one.join(0.0) for one in client.reflectors)
        assert all(0.0 <= seconds <= 60.0 for seconds in slept)
        assert not log.tracebacks
    finally:
        logging.getLogger("moorage.serve").removeHandler(log)
        server.close()


@given(st.lists(answer, min_size=1, max_size=8))
@settings(max_examples=60)
@example([b"HTTP/1.1 429 X\r\nRetry-After: 99999999999\r\nContent-Length: 0\r\n\r\n"])
@example([b"HTTP/1.1 503 X\r\nRetry-After: \xb2\r\nContent-Length: 0\r\n\r\n"] * 3)
def test_no_answer_ends_the_client(answers: list[bytes]) -> None:
    check(answers)
