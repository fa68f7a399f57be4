"""Reflectors over the wire format: what is listed, watched, listed again, and told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from threading import Event, Semaphore
from typing import Any

import pytest
from tests.doors.kube import plural
from tests.doors.live import Backoff, Reflector, Session
from tests.store.api.test_api_client import answers, cuts, pod
from tests.store.api.wire_server import LIMIT, Handler, WireServer

from moorage.kube import Namespace, Node, Object, ObjectMeta, Pod, PodGroup, parse_selector
from moorage.live.client import ApiClient, Connection
from moorage.store import BadRequestError, ForbiddenError, Informer, InformerFactory, ObjectStore, Replacement


def until(client: ApiClient, condition: Callable[[], bool]) -> None:
    """Look at a condition whenever something has arrived."""
    while True:
        seen = client.arrivals.count
        if condition():
            return
        assert client.arrivals.wait(seen, LIMIT) != seen


class Pauses:
    """Pauses of reflectors that end when the test says so, or when another reflector does."""

    def __init__(self) -> None:
        self.seconds = list[float]()
        self._ends = Semaphore(0)
        self._began = Semaphore(0)

    def __call__(self, call: Event, seconds: float) -> bool:
        self.seconds.append(seconds)
        self._began.release()
        while not call.is_set() and not self._ends.acquire(timeout=0.01):
            pass
        return call.is_set()

    def begin(self) -> None:
        """Wait until a pause begins."""
        assert self._began.acquire(timeout=LIMIT)

    def end(self, count: int = 1) -> None:
        self._ends.release(count)


@pytest.fixture
def pauses(client: ApiClient) -> Iterator[Pauses]:
    pauses = Pauses()
    client.connection.wait = pauses
    yield pauses
    pauses.end(100)


class Copy:
    """What an informer knows of a kind."""

    def __init__(self, client: ApiClient, kind: Any = Pod) -> None:
        self.client, self.informer = client, Informer(client, kind)

    def names(self) -> str:
        self.informer.run_once()
        return "".join(sorted(one.name for one in self.informer.indexer.values()))

    def until(self, names: str) -> None:
        until(self.client, lambda: self.names() == names)


def take(reflector: Any, count: int) -> list[tuple[str, str]]:
    """The next news of a reflector, objects that were listed as such."""
    taken: list[tuple[str, str]] = []
    while len(taken) < count:
        assert reflector.wait(LIMIT)
        news = reflector.poll()
        is_list = isinstance(news, Replacement)
        taken += [("LISTED", one.name) if is_list else (one.type, one.object.name) for one in news]
    return taken


def watching(client: ApiClient, store: ObjectStore, obj: Object | None = None) -> Reflector[Any]:
    """A reflector whose stream is open, as it has told of an object."""
    obj = pod("a") if obj is None else obj
    reflector = client.follow(type(obj))
    assert reflector.wait(LIMIT)
    assert reflector.poll() == []
    store.create(obj)
    assert take(reflector, 1) == [("ADDED", obj.name)]
    return reflector


def requests(server: WireServer, kind: Any = Pod) -> list[dict[str, str]]:
    return [query for _, path, query in list(server.requests) if path.endswith(f"/{plural(kind)}")]


def lists(server: WireServer) -> int:
    return sum("resourceVersion" not in query for query in requests(server))


def on_watches(fault: Any) -> Any:
    """A fault of the next stream that goes on after a list."""
    return lambda handler: "resourceVersion" in handler.query and fault(handler)


def sends(*lines: Any) -> Any:
    """A stream of these lines, which the server then ends."""

    def fault(handler: Handler) -> bool:
        handler.send(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return True

    return fault


def test_a_closed_reflector_is_silent(client: ApiClient, store: ObjectStore) -> None:
    store.create_many([pod("b"), pod("a")])
    reflector = client.follow(Pod)
    assert take(reflector, 2) == [("LISTED", "a"), ("LISTED", "b")]
    reflector.close()
    assert reflector.wait()
    assert reflector.poll() == []
    with pytest.raises(BadRequestError, match="needs the text"):
        client.follow(Pod, label_selector=parse_selector("a=b"))


@pytest.mark.parametrize("fault", [cuts, answers(429, "TooManyRequests", "later")])
def test_without_an_answer_the_watch_goes_on_where_it_was(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float], fault: Any
) -> None:
    reflector = watching(client, store)
    server.faults += [fault, fault]
    server.cut()
    store.create(pod("b"))
    assert take(reflector, 1) == [("ADDED", "b")]
    assert len(slept) == 3
    assert 0.8 <= slept[0] <= 1.6 <= slept[1] <= 3.2 <= slept[2] <= 6.4
    assert lists(server) == 1


def test_a_stream_that_has_lasted_is_opened_at_once(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    now = [0.0]
    client.connection.clock = lambda: now[0]
    reflector = watching(client, store)
    now[0] = 1.0
    server.cut()
    store.create(pod("b"))
    assert take(reflector, 1) == [("ADDED", "b")]
    assert (slept, lists(server)) == ([], 1)


def test_bookmarks_move_the_version_forward(
    client: ApiClient, store: ObjectStore, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.live.client.reflector.SHORT", 0.0)
    store.create(Node(metadata=ObjectMeta(name="n")))
    last = store.create(Node(metadata=ObjectMeta(name="m"))).metadata.resource_version
    meta = {"resourceVersion": last, "creationTimestamp": None}
    value = {"kind": "Pod", "metadata": meta, "spec": {"containers": None}}
    server.faults.append(on_watches(sends({"type": "BOOKMARK", "object": value})))
    reflector = client.follow(Pod)
    while len(requests(server)) < 3:
        client.arrivals.wait(client.arrivals.count, 0.001)
    store.create(pod("a"))
    assert take(reflector, 1) == [("ADDED", "a")]
    asked = requests(server)[1:]
    assert asked[-1]["resourceVersion"] == last
    assert all(query["allowWatchBookmarks"] == "true" for query in asked)
    assert all(20 <= int(query["timeoutSeconds"]) <= 30 for query in asked)


def wire_pod(name: str = "x", **meta: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "3", **meta},
    }


BIG = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}
WRONG = [
    {"type": "ADDED", "object": {}},
    {"type": "ADDED", "object": wire_pod() | {"kind": "Node"}},
    {"type": "ADDED", "object": wire_pod() | {"apiVersion": "v2"}},
    {"type": "ADDED", "object": {"kind": "Status", "status": "Failure"}},
    {"type": "ADDED", "object": wire_pod() | {"spec": BIG}},
    {"type": "WHATEVER", "object": wire_pod()},
    {"type": "BOOKMARK", "object": wire_pod(resourceVersion="")},
    {"type": "BOOKMARK", "object": wire_pod() | {"kind": "Node"}},
    {"type": "ERROR", "object": None},
    {"type": "ERROR"},
    *({"type": "MODIFIED", "object": wire_pod(**{field: ""})} for field in wire_pod()["metadata"]),
    [],
]


@pytest.mark.parametrize("line", WRONG)
def test_an_event_that_fails_the_check_leads_to_a_new_list(
    client: ApiClient, store: ObjectStore, server: WireServer, pauses: Pauses, line: Any
) -> None:
    """After a pause, each time."""
    server.faults += [on_watches(sends(line))] * 2
    copy = Copy(client)
    copy.until("")
    for _ in range(2):
        pauses.begin()
        assert copy.names() == ""
        (reflector,) = client.reflectors
        assert reflector.unreadable_since is not None
        pauses.end()
    store.create(pod("a"))
    copy.until("a")
    assert lists(server) == 3


@pytest.mark.parametrize(
    "fault",
    [
        answers(410, "Expired", "too old"),
        answers(403, "Forbidden", "not now"),
        answers(500, "InternalError", 'resourceVersion: Invalid value: "abc"'),
        sends({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}),
        sends(),
        sends({"type": "BOOKMARK", "object": wire_pod(resourceVersion="999999999999")}),
    ],
)
def test_an_error_of_the_watch_leads_to_a_new_list(
    client: ApiClient, store: ObjectStore, server: WireServer, fault: Any
) -> None:
    server.faults.append(on_watches(fault))
    copy = Copy(client)
    store.create(pod("a"))
    copy.until("a")
    store.delete(Pod, "a", "default")
    store.create(pod("b"))
    copy.until("b")
    assert lists(server) == 2


def test_a_kind_that_cannot_be_listed_keeps_its_copy_and_stops_no_other(
    client: ApiClient, store: ObjectStore, server: WireServer, pauses: Pauses
) -> None:
    """Nor does a list that is slow: nobody waits for it."""
    gate = Event()

    def slow(handler: Handler) -> bool:
        gate.wait(LIMIT)
        return False

    def of_pods(fault: Any) -> Any:
        return lambda handler: handler.path.startswith("/api/v1/pods") and fault(handler)

    def count(kind: type[Object]) -> int:
        while informers.run_once():
            pass
        return len(informers.informer(kind).indexer.values())

    broken = answers(500, "InternalError", "unable to decrypt")
    server.faults += [of_pods(on_watches(broken)), of_pods(broken), of_pods(broken)]
    store.create(pod("a"))
    informers = InformerFactory(client)
    pods = informers.informer(Pod).indexer
    informers.informer(Node)
    informers.run_once()
    store.create(pod("b"))
    pauses.begin()
    pauses.end()
    pauses.begin()
    assert [one.kind for one in client.reflectors if one.error == "unable to decrypt"] == ["Pod"]
    server.faults.append(of_pods(slow))
    for name in ("n1", "n2"):
        nodes = count(Node)
        store.create(Node(metadata=ObjectMeta(name=name)))
        until(client, lambda: count(Node) > nodes)  # noqa: B023 - it is called in this turn
        assert [one.name for one in pods.values()] == ["a"]
        pauses.end()
    server.faults.clear()
    gate.set()
    until(client, lambda: count(Pod) == 2)


@pytest.mark.parametrize("is_alone", [True, False])
def test_the_first_kind_that_can_be_read_after_an_outage_calls_the_others(
    client: ApiClient,
    store: ObjectStore,
    server: WireServer,
    pauses: Pauses,
    slept: list[float],
    is_alone: bool,
) -> None:
    """They do not pause to the end, and their backoff begins anew. A kind that failed alone calls nobody, and
    one that was never served is called as well."""
    server.unserved.add("scheduling.k8s.io")
    Copy(client, PodGroup).until("")
    pauses.begin()
    client.connection.wait = pauses = Pauses()  # that of the groups does not end
    fault = answers(403, "Forbidden", "not yet")

    def refuse(handler: Handler) -> bool:
        return not (is_alone and handler.path.startswith("/api/v1/namespaces")) and bool(fault(handler))

    others = [kind(metadata=ObjectMeta(name="x")) for kind in (Node, Namespace)]
    followed = [watching(client, store, obj) for obj in (pod("x"), *others)]
    concerned = followed[:2] if is_alone else followed
    server.outage = refuse
    for path in ("/pods", "/nodes") if is_alone else ("",):
        server.cut(path)
    for _ in range(2):
        for _ in concerned:
            pauses.begin()
        pauses.end(len(concerned))
    for _ in concerned:
        pauses.begin()
    server.outage = None
    pauses.end()
    until(client, lambda: any(one.unreadable_since is None for one in concerned))
    if is_alone:
        pauses.end()
    calls = 0 if is_alone else 3
    until(client, lambda: len(slept) >= calls and all(one.unreadable_since is None for one in followed))
    assert len(slept) == calls
    assert all(0.8 <= seconds <= 1.6 for seconds in slept)


def test_a_kind_that_is_called_during_an_attempt_does_not_pause_after_it(
    client: ApiClient, store: ObjectStore, server: WireServer, pauses: Pauses
) -> None:
    """The server was away when the attempt began."""
    refuse, begun, gate = answers(403, "Forbidden", "not yet"), Event(), Event()

    def refuse_nodes_late(handler: Handler) -> bool:
        if handler.path.startswith("/api/v1/nodes"):
            begun.set()
            gate.wait(LIMIT)
        return bool(refuse(handler))

    nodes = watching(client, store, Node(metadata=ObjectMeta(name="x")))
    pods = watching(client, store)
    server.outage = refuse_nodes_late
    server.cut("/nodes")
    pauses.begin()
    pauses.end()
    assert begun.wait(LIMIT)
    server.cut("/pods")
    pauses.begin()
    server.outage = None
    store.create(pod("y"))
    pauses.end()
    until(client, lambda: pods.unreadable_since is None)
    assert nodes.unreadable_since is not None
    gate.set()
    until(client, lambda: nodes.unreadable_since is None)


def test_a_kind_that_comes_and_goes(
    client: ApiClient, store: ObjectStore, server: WireServer, pauses: Pauses
) -> None:
    """While it was never served it has no objects; later it keeps those that were read."""
    server.unserved.add("scheduling.k8s.io")
    store.create(PodGroup(metadata=ObjectMeta(name="g", namespace="default")))
    copy = Copy(client, PodGroup)
    assert copy.names() == ""
    assert copy.informer.has_synced()
    pauses.begin()
    (reflector,) = client.reflectors
    assert reflector.unreadable_since is None
    server.unserved.clear()
    pauses.end()
    copy.until("g")
    server.unserved.add("scheduling.k8s.io")
    server.cut()
    for _ in range(
        3
    ):  # the stream was cut, the watch is answered by 404, and so is the question for the kind
        pauses.begin()
        pauses.end()
    pauses.begin()
    assert reflector.error == "the server does not serve the kind any more"
    assert copy.names() == "g"
    store.create(PodGroup(metadata=ObjectMeta(name="h", namespace="default")))
    server.unserved.clear()
    pauses.end()
    copy.until("gh")


def test_the_first_list_is_awaited_and_its_refusals_are_raised(
    client: ApiClient, store: ObjectStore, server: WireServer, pauses: Pauses
) -> None:
    store.create(pod("a"))
    server.faults += [answers(403, "Forbidden", "pods is forbidden")] * 2
    copy, stop = Copy(client), Event()
    with pytest.raises(ForbiddenError, match="pods is forbidden"):
        copy.names()
    assert not copy.informer.has_synced()
    assert [one.is_listed for one in client.reflectors] == [False]
    stop.set()
    assert not client.await_lists(stop)
    pauses.end()
    assert client.await_lists(Event())
    assert copy.names() == "a"


def test_what_cannot_be_read_is_told_once(
    client: ApiClient,
    store: ObjectStore,
    server: WireServer,
    pauses: Pauses,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "moorage")
    now = [100.0]
    client.connection.clock = lambda: now[0]
    server.faults += [on_watches(answers(403, "Forbidden", "no watch"))] * 3
    reflector = client.follow(Pod)
    for _ in range(3):
        pauses.begin()
        assert (reflector.unreadable_since, reflector.error) == (100.0, "no watch")
        assert reflector.heard == now[0]
        now[0] += 10.0
        pauses.end()
    while len(requests(server)) < 8:  # four lists and watches
        client.arrivals.wait(client.arrivals.count, 0.001)
    store.create(pod("a"))
    assert take(reflector, 1) == [("ADDED", "a")]
    while len(caplog.records) < 2:
        client.arrivals.wait(client.arrivals.count, 0.001)
    assert [record.getMessage() for record in caplog.records] == [
        "kind cannot be read: kind=Pod error=no watch",
        "kind can be read again: kind=Pod seconds=30.0",
    ]


def test_a_defect_in_reading_is_a_kind_that_cannot_be_read(
    client: ApiClient, store: ObjectStore, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr(Reflector, "_watch", fail)
    copy = Copy(client)
    copy.until("")
    pauses.begin()
    assert "a defect" in client.reflectors[0].error
    monkeypatch.undo()
    store.create(pod("a"))
    pauses.end()
    copy.until("a")


def test_closing_ends_the_thread(client: ApiClient, store: ObjectStore) -> None:
    reflector = watching(client, store)
    reflector.close()
    assert reflector.join(LIMIT)
    assert client.reflectors == ()


def test_the_threads_have_a_second_to_end(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = [0.0], list[float]()
    original = Reflector.join

    def join(reflector: Any, timeout: float) -> bool:
        waits.append(timeout)
        now[0] += 0.75 * timeout
        return original(reflector, LIMIT)

    monkeypatch.setattr(Reflector, "join", join)
    http = Session(server.url)
    client = ApiClient(Connection(http, clock=lambda: now[0]))
    for _ in range(3):
        client.follow(Pod)
    client.close()
    assert waits == [1.0, 0.25, 0.0625]


def test_pauses_double_and_begin_anew_after_two_minutes_without_one() -> None:
    now = [0.0]
    backoff = Backoff(lambda: now[0], lambda: 0.5)
    times = [backoff.next() for _ in range(8)]
    assert times == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 30.0, 30.0, 30.0])
    now[0] += 120.0
    assert backoff.next() == pytest.approx(1.2)


def test_the_connection_counts_requests(server: WireServer) -> None:
    connection = Connection(Session(server.url))
    with ApiClient(connection, lambda: 5.0) as client:
        client.list(Pod)
        assert (connection.requests, client.now()) == (1, 5.0)
