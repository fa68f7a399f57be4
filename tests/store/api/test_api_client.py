"""Reads and writes over the wire format: what arrives at the server, and what comes back."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.api.wire_server import Handler, WireServer, status

from moorage.kube import ObjectMeta, PersistentVolume, Pod, PodGroup
from moorage.live.client import ApiClient
from moorage.store import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ObjectStore,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)

# Threads that decode a type for the first time at once, which crashes msgspec where no decoder exists yet.
FIRST_USE = """
import threading
from moorage.kube import Node, PersistentVolume
from moorage.live.client import collection as wire_format
text = b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {}, "status": {}}'
gate = threading.Barrier(8)
def work(struct):
    gate.wait()
    for _ in range(200):
        wire_format.decode_object_of(struct, text)
threads = [threading.Thread(target=work, args=(one,)) for one in (PersistentVolume, Node) * 4]
[one.start() for one in threads]
[one.join() for one in threads]
print("decoded", all(struct in wire_format._OBJECTS for struct in wire_format.structs()))
"""


def pod(name: str, **meta: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", **meta))


def answers(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> Any:
    def fault(handler: Handler) -> bool:
        handler.send(code, status(code, reason, message), headers)
        return True

    return fault


def cuts(handler: Handler) -> bool:
    handler.cut()
    return True


def test_threads_may_be_the_first_to_decode_a_type() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "decoded True\n"), done.stderr


@pytest.mark.parametrize("streams", [True, False])
def test_lists_in_the_order_of_keys(
    client: ApiClient, store: ObjectStore, server: WireServer, streams: bool
) -> None:
    server.streams_lists = streams
    store.create_many([pod(name) for name in ("c", "a", "b")])
    assert client.list(Pod) == store.list(Pod)
    assert client.list(Pod, "other") == ([], store.list(Pod)[1])
    asked = [query for _, path, query in server.requests if path.endswith("/pods")]
    assert ("sendInitialEvents" in asked[-1]) is streams
    assert all(
        one.get("resourceVersionMatch") == "NotOlderThan" for one in asked if "sendInitialEvents" in one
    )
    assert sum("sendInitialEvents" in one for one in asked) == 2  # a refusal is of this list alone


def test_a_list_whose_pages_have_expired_is_read_as_a_whole(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    server.streams_lists, server.page = False, 2
    store.create_many([pod(f"p{at}") for at in range(5)])

    def expires(handler: Handler) -> bool:
        if "continue" not in handler.query:
            return False
        server.page = 0
        return bool(answers(410, "Expired", "too old")(handler))

    server.faults.append(expires)
    assert client.list(Pod) == store.list(Pod)
    assert "limit" not in server.requests[-1][2]


def test_a_list_that_breaks_off_begins_anew(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    store.create(pod("a"))
    server.faults += [cuts, cuts]
    assert client.list(Pod) == store.list(Pod)
    assert len(slept) == 1  # pages are asked for at once
    server.faults += [cuts] * 5
    with pytest.raises(UnreachableError):
        client.list(Pod)


def test_kinds_that_are_not_served_have_no_objects(client: ApiClient, server: WireServer) -> None:
    server.unserved.add("scheduling.k8s.io")
    assert client.list(PodGroup) == ([], "0")
    with pytest.raises(NotFoundError, match="could not find the requested resource: PodGroup"):
        client.get(PodGroup, "a", "default")


def test_an_update_keeps_what_structs_do_not_have(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    volume = store.create(PersistentVolume(metadata=ObjectMeta(name="v", annotations={"a": "1", "b": "2"})))
    server.extra["v"] = {"spec": {"futureField": ["ro"]}}
    meta = replace(volume.metadata, annotations={"b": "3"})
    sent: list[Any] = []

    def notes(handler: Handler) -> bool:
        sent.extend([handler.body] if handler.command == "PATCH" else [])
        return False

    server.faults.append(notes)
    updated = client.update(replace(volume, metadata=meta))
    assert updated.metadata.annotations == {"b": "3"} == store.get(PersistentVolume, "v").metadata.annotations
    guard = {"uid": volume.metadata.uid, "resourceVersion": volume.metadata.resource_version}
    assert sent == [{"metadata": {"annotations": {"a": None, "b": "3"}, **guard}}]
    with pytest.raises(ConflictError, match="the object has been modified"):
        client.update(replace(volume, metadata=meta))
    with pytest.raises(ConflictError, match="UID in precondition: x"):
        client.update(replace(volume, metadata=replace(meta, uid="x", resource_version="")))
    writes = len(sent)
    assert client.update(updated) == updated
    assert len(sent) == writes  # nothing has changed


def no_status(body: bytes) -> Any:
    """Answers a write with something else than a Status."""

    def fault(handler: Handler) -> bool:
        handler.send(200, body)
        return True

    return fault


@pytest.mark.parametrize(
    "answer",
    [cuts, answers(500, "InternalError", "a fault"), no_status(b"<html>"), no_status(b""), no_status(b"{}")],
)
@pytest.mark.parametrize("node", ["n", "other", ""])
def test_a_binding_without_an_answer_is_looked_for(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float], answer: Any, node: str
) -> None:
    stored = store.create(pod("a"))

    def fault(handler: Handler) -> bool:
        if node:
            store.bind(stored, node)
        return bool(answer(handler))

    server.faults.append(fault)
    with nullcontext() if node == "n" else pytest.raises(UnreachableError if answer is cuts else ServerError):
        client.bind(stored, "n")
    assert slept == [1.0]  # the server may be about to bind it


def test_a_lost_answer_is_looked_for_until_the_server_tells(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    """A server that starts is away, does not know the user, or gives him no right."""
    stored = store.create(pod("a"))

    def carries_out(handler: Handler) -> bool:
        store.bind(stored, "n")
        return bool(cuts(handler))

    starts = [answers(code, "", "not yet") for code in (401, 403, 500)]
    server.faults += [carries_out, *[cuts] * 4, *starts]
    client.bind(stored, "n")
    assert slept == [1.0, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0]
    deleted = store.create(pod("b"))
    server.faults += [cuts, answers(404, "NotFound", "gone")]
    with pytest.raises(UnreachableError):
        client.bind(deleted, "n")


def test_a_binding_of_another_pod_is_none(client: ApiClient, store: ObjectStore, server: WireServer) -> None:
    stored = store.create(pod("a"))
    other = replace(stored, metadata=replace(stored.metadata, uid="x"))
    store.bind(stored, "n")
    server.faults.append(cuts)
    with pytest.raises(UnreachableError):
        client.bind(other, "n")


# ---- answers that are no success ----


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (500, "InternalError", ServerError),
    ],
)
def test_errors_have_the_type_of_their_status(
    client: ApiClient, server: WireServer, code: int, reason: str, error: type[Exception]
) -> None:
    server.faults.append(answers(code, reason, "because"))
    with pytest.raises(error, match="because"):
        client.get(Pod, "a", "default")


def test_an_answer_that_is_no_status(client: ApiClient, server: WireServer) -> None:
    def proxy(handler: Handler) -> bool:
        handler.send(502, b"<html>Bad Gateway</html>")
        return True

    server.faults.append(proxy)
    with pytest.raises(ServerError, match="Bad Gateway"):
        client.get(Pod, "a", "default")


def test_requests_that_are_put_off_are_repeated(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    stored = store.create(pod("a"))
    server.faults += [answers(429, "TooManyRequests", "later", {"Retry-After": "3"})] * 2
    server.faults.append(answers(503, "ServiceUnavailable", "later", {"Retry-After": "2"}))
    server.faults.append(answers(500, "InternalError", "later", {"Retry-After": "+1"}))
    client.bind(stored, "n")
    assert slept == [3.0, 3.0, 2.0, 1.0]
    server.faults += [answers(429, "TooManyRequests", "later")] * 11
    with pytest.raises(TooManyRequestsError, match="later"):
        client.get(Pod, "a", "default")
    assert slept[4:] == [1.0] * 10
    server.faults.append(answers(503, "ServiceUnavailable", "down"))
    with pytest.raises(ServerError, match="down"):
        client.get(Pod, "a", "default")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-5", 0.0), ("61", 60.0), ("9" * 18, 60.0), ("²", None), ("9" * 19, None), ("1.5", None), ("", None)],
)
def test_a_time_to_wait_is_a_number_as_in_go(
    client: ApiClient, server: WireServer, slept: list[float], text: str, seconds: float | None
) -> None:
    """Other text does not count: after 503 the request has failed, after 429 it waits a second."""
    for code in (429, 503):
        server.faults.append(answers(code, "x", "later", {"Retry-After": text}))
        wrong = NotFoundError if seconds is not None or code == 429 else ServerError
        with pytest.raises(wrong):
            client.get(Pod, "a", "default")
    assert slept == ([1.0] if seconds is None else [seconds] * 2)


def test_only_reads_are_repeated_after_a_connection_has_broken(
    client: ApiClient, store: ObjectStore, server: WireServer, slept: list[float]
) -> None:
    stored = store.create(pod("a"))
    server.faults += [cuts] * 3
    assert client.get(Pod, "a", "default") == stored
    assert len(slept) == 3
    server.faults.append(cuts)
    with pytest.raises(UnreachableError):
        client.bind(stored, "n")
    assert [method for method, path, _ in server.requests if path.endswith("/binding")] == ["POST"]
    assert not store.get(Pod, "a", "default").spec.node_name


def test_an_answer_about_another_object_is_an_error_of_the_server(
    client: ApiClient, store: ObjectStore, server: WireServer
) -> None:
    store.create(pod("a"))
    for meta in ({"name": "b"}, {"namespace": "other"}, {"uid": ""}):
        server.extra["default/a"] = {"metadata": meta}
        for call in (
            lambda: client.get(Pod, "a", "default"),
            lambda: client.patch(Pod, "a", "default", {}),
        ):
            with pytest.raises(ServerError, match="the API server has sent"):
                call()
    server.faults += [answers(200, "", "no list")] * 2
    with pytest.raises(ServerError, match="has sent 'Status' as a list of Pod"):
        client.list(Pod)


def test_nulls_of_the_wire_count_as_absent(client: ApiClient, store: ObjectStore, server: WireServer) -> None:
    store.create(pod("a"))
    server.extra["default/a"] = {"spec": {"containers": None, "nodeSelector": None}}
    assert client.get(Pod, "a", "default") == store.get(Pod, "a", "default")
    server.streams_lists = False
    assert client.list(Pod) == store.list(Pod)
    server.extra["default/a"] = {"spec": {"containers": 3}}
    with pytest.raises(ServerError, match=r"a Pod of the API server cannot be read"):
        client.get(Pod, "a", "default")
