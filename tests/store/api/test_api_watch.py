"""Watches over the wire format: reconnects, bookmarks, expiry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.store.api.test_api_client import answers, cuts, pod
from tests.store.api.wire_server import Handler, WireServer

from moorage.objects import Node, ObjectMeta, Pod, parse_selector
from moorage.store import BadRequestError, ForbiddenError, Informer, ObjectStore, ResourceExpiredError
from moorage.store.api import ApiClient, Connection
from moorage.store.api.api_watch import ApiWatch, Backoff
from moorage.store.api.http_sessions import Session

LIMIT = 30.0  # seconds until a test gives up; none of them takes that long


def take(watch: Any, count: int) -> list[tuple[str, str]]:
    """The next events of a watch."""
    events: list[Any] = []
    while len(events) < count:
        assert watch.wait(LIMIT)
        events += watch.poll()
    return [(event.type, event.object.name) for event in events]


def requests(server: WireServer) -> list[dict[str, str]]:
    return [query for _, path, query in server.requests if path == "/api/v1/pods"]


def test_events_after_a_version(client: ApiClient, store: ObjectStore) -> None:
    store.create(pod("a"))
    version = client.list(Pod)[1]
    watch = client.watch(Pod, resource_version=version)
    assert watch.poll() == []
    store.create(pod("b"))
    store.delete(Pod, "a", "default")
    assert take(watch, 2) == [("ADDED", "b"), ("DELETED", "a")]
    watch.close()
    assert watch.wait()
    assert watch.poll() == []


def test_without_a_version_the_objects_come_first(client: ApiClient, store: ObjectStore) -> None:
    store.create(pod("a"))
    watch = client.watch("Pod", field_selector="spec.nodeName=")
    assert take(watch, 1) == [("ADDED", "a")]
    store.create(pod("b"))
    assert take(watch, 1) == [("ADDED", "b")]
    with pytest.raises(BadRequestError, match="needs the text"):
        client.watch(Pod, label_selector=parse_selector("a=b"))


def test_a_broken_stream_goes_on_where_it_was(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    watch = client.watch(Pod, resource_version=store.list(Pod)[1])
    store.create(pod("a"))
    assert take(watch, 1) == [("ADDED", "a")]
    server.faults += [cuts, cuts]  # the first attempts to connect again fail
    server.cut()
    store.create(pod("b"))
    assert take(watch, 1) == [("ADDED", "b")]
    assert len(slept) == 3
    assert 0.8 <= slept[0] <= 1.6 <= slept[1] <= 3.2 <= slept[2] <= 6.4
    version = store.get(Pod, "a", "default").metadata.resource_version
    assert [query["resourceVersion"] for query in requests(server)][1:] == [version] * 3


def ends_with(*lines: Any) -> Any:
    """A stream of these lines, which the server then ends."""

    def fault(handler: Handler) -> bool:
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        handler.send(200, body)
        return True

    return fault


def test_bookmarks_move_the_version_forward(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    first = store.create(Node(metadata=ObjectMeta(name="n"))).metadata.resource_version
    last = store.create(Node(metadata=ObjectMeta(name="m"))).metadata.resource_version
    meta = {"resourceVersion": last, "creationTimestamp": None}
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": meta, "spec": {"containers": None}}}
    server.faults.append(ends_with(mark))
    watch = client.watch(Pod, resource_version=first)
    store.create(pod("a"))
    assert take(watch, 1) == [("ADDED", "a")]
    asked = requests(server)
    assert [query["resourceVersion"] for query in asked] == [first, last]
    assert all(query["allowWatchBookmarks"] == "true" for query in asked)
    assert all(20 <= int(query["timeoutSeconds"]) <= 30 for query in asked)


def test_a_stream_that_ends_at_once_is_not_opened_at_once(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    server.faults += [ends_with(), ends_with()]
    watch = client.watch(Pod)
    store.create(pod("a"))
    assert take(watch, 1) == [("ADDED", "a")]
    assert len(slept) == 2


@pytest.mark.parametrize("as_status", [True, False])
def test_a_version_that_is_too_old_has_expired(
    server: WireServer, client: ApiClient, as_status: bool
) -> None:
    server.store = ObjectStore(history=1)
    for name in "abc":
        server.store.create(pod(name))
    if as_status:
        server.faults.append(answers(410, "Expired", "too old resource version"))
    watch = client.watch(Pod, resource_version="2")
    assert watch.wait(LIMIT)
    with pytest.raises(ResourceExpiredError):
        watch.poll()


def test_a_user_who_may_not_watch_learns_it(client: ApiClient, server: WireServer) -> None:
    server.faults.append(answers(403, "Forbidden", "pods is forbidden"))
    watch = client.watch(Pod)
    assert watch.wait(LIMIT)
    with pytest.raises(ForbiddenError, match="pods is forbidden"):
        watch.poll()


def test_closing_ends_the_thread(client: ApiClient, store: ObjectStore) -> None:
    watch: Any = client.watch(Pod)
    store.create(pod("a"))
    assert take(watch, 1)
    watch.close()
    assert watch.join(LIMIT)


@pytest.mark.parametrize("refusal", [(410, "Expired", "too old"), (403, "Forbidden", "not now")])
def test_an_informer_lists_again_after_its_watch_has_failed(
    client: ApiClient, store: ObjectStore, server: WireServer, refusal: tuple[int, str, str]
) -> None:
    informer = Informer(client, Pod)

    def has(name: str) -> bool:
        return [one.name for one in informer.indexer.values()] == [name]

    def run_until(name: str) -> None:
        while not has(name):
            seen = client.arrivals.count
            informer.run_once()
            assert has(name) or client.arrivals.wait(seen, LIMIT) != seen

    informer.run_once()
    store.create(pod("a"))
    run_until("a")  # the stream is open, so that it can be cut
    server.faults.append(answers(*refusal))
    server.cut()
    store.delete(Pod, "a", "default")
    store.create(pod("b"))
    run_until("b")
    assert any("sendInitialEvents" in query for query in requests(server)[1:])


def test_the_threads_of_all_watches_have_a_second_to_end(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waits = [0.0], list[float]()

    original = ApiWatch.join

    def join(watch: Any, timeout: float) -> bool:
        waits.append(timeout)
        now[0] += 0.75 * timeout
        return original(watch, LIMIT)

    monkeypatch.setattr(ApiWatch, "join", join)
    http = Session(server.url)
    client = ApiClient(Connection(http, sleep=lambda _: None, clock=lambda: now[0]))
    for _ in range(3):
        client.watch(Pod, resource_version="1")
    client.close()
    assert waits == [1.0, 0.25, 0.0625]


def test_backing_off_doubles_and_begins_anew_after_a_long_stream() -> None:
    now = [0.0]
    backoff = Backoff(lambda: now[0], lambda: 0.5)
    times = []
    for _ in range(8):
        backoff.begin()
        times.append(backoff.next())
    assert times == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 30.0, 30.0, 30.0])
    backoff.begin()
    now[0] += 120.0
    assert backoff.next() == pytest.approx(1.2)


def test_the_connection_counts_requests(server: WireServer) -> None:
    connection = Connection(Session(server.url))
    with ApiClient(connection, lambda: 5.0) as client:
        client.list(Pod)
        assert (connection.requests, client.now()) == (1, 5.0)
