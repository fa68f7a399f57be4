"""An HTTP server on loopback: the wire format of an API server over an ObjectStore, with faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from tests.doors.kube import plural
from tests.doors.store import structs

from moorage.kube import Object, Pod, decode_object, object_to_dict
from moorage.store import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InvalidObjectError,
    NotFoundError,
    ObjectStore,
    ResourceExpiredError,
)

CODES = {
    NotFoundError: (404, "NotFound"),
    AlreadyExistsError: (409, "AlreadyExists"),
    ConflictError: (409, "Conflict"),
    InvalidObjectError: (422, "Invalid"),
    ResourceExpiredError: (410, "Expired"),
}
PATCH_TYPES = {"merge-patch": "merge", "strategic-merge-patch": "strategic", "json-patch": "json"}
KINDS = {plural(struct): struct for struct in structs()}

LIMIT = 120.0
"""Seconds until a test gives up; none of them takes that long on the busiest machine."""
Fault: TypeAlias = Callable[["Handler"], bool]


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition of what a thread does holds in the end."""
    end = time.monotonic() + LIMIT
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    value = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return value | {"message": message, "reason": reason, "code": code}


class WireServer:
    """Serves a store.

    Attributes
    ----------
    version : str
        Of ``/version``; "" for none.
    faults : list of callable
        The first takes a handler before its request is served, and returns whether it has answered. It is
        dropped before the client can see its answer: the next request is not for it.
    outage : callable or None
        A fault that stays.
    requests : list of (method, path, query)
    streams_lists : bool
        Whether the server has streaming lists.
    unserved : set of str
        Groups that are not served.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.faults: list[Fault] = []
        self.outage: Fault | None = None
        self.version = ""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.streams_lists = True
        self.unserved: set[str] = set()
        self.raw: dict[str, dict[str, Any]] = {}  # events and leases by path
        self.extra: dict[str, dict[str, Any]] = {}  # fields of objects, by key, that structs do not have
        self.page = 0  # the largest page; 0 for any
        self.lock = threading.Lock()
        self.open: list[Handler] = []
        self.stopping = threading.Event()
        owner = self

        class Bound(Handler):
            server_of = owner

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128  # beyond the queue a connection is tried again after a second

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A connection that was cut is no error of a test."""

        self.http = Server(("127.0.0.1", 0), Bound)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def cut(self, part: str = "") -> None:
        """Cut all watches whose path has a part."""
        with self.lock:
            handlers = [handler for handler in self.open if part in handler.path]
        for handler in handlers:
            handler.hang_up()

    def close(self) -> None:
        self.stopping.set()
        self.cut()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def value(self, obj: Object) -> dict[str, Any]:
        """The object as the server sends it."""
        value = object_to_dict(obj)
        for path, field in self.extra.get(obj.key, {}).items():
            value.setdefault(path, {})
            value[path] = value[path] | field
        return value


class Handler(BaseHTTPRequestHandler):
    server_of: WireServer
    fault: Callable[[Handler], bool] | None = None
    disable_nagle_algorithm = True  # the body does not wait until the head is acknowledged
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError):
            self.close_connection = True

    def serve(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.parts = url.path.strip("/").split("/")
        length = int(self.headers.get("Content-Length", 0))
        self.body = json.loads(self.rfile.read(length)) if length else None
        owner = self.server_of
        with owner.lock:
            owner.requests.append((self.command, url.path, self.query))
            fault = self.fault = owner.faults[0] if owner.faults else None
            outage = owner.outage
            if "watch" in self.query:
                owner.open.append(self)  # at once: whoever cuts watches after this cuts it
        try:
            self.serve_unless(fault, outage)
        finally:
            if "watch" in self.query:
                with owner.lock:
                    owner.open.remove(self)

    def serve_unless(self, fault: Fault | None, outage: Fault | None) -> None:
        """Answer, unless a fault does."""
        if fault is not None and fault(self):
            return
        self.fault = None
        if outage is not None and outage(self):
            return
        try:
            self.answer()
        except ApiError as error:
            code, reason = CODES.get(type(error), (400, "BadRequest"))
            self.send(code, status(code, reason, str(error)))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815

    def drop_fault(self) -> None:
        """Take the fault that answers this request off the list."""
        with self.server_of.lock:
            if self.fault in self.server_of.faults:
                self.server_of.faults.remove(self.fault)

    def send(self, code: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.drop_fault()
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for name, text in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def cut(self) -> None:
        """Close the connection as the answer of a fault."""
        self.drop_fault()
        self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)

    def answer(self) -> None:
        parts = self.parts
        if parts[0] == "apis" and len(parts) in (2, 3):
            self.discover()
            return
        if parts == ["version"]:
            told = self.server_of.version
            self.send(200 if told else 404, json.dumps({"gitVersion": told}).encode() if told else b"{}")
            return
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if rest[0] in ("events", "leases"):
            self.untyped("/".join(parts))
            return
        struct = KINDS[rest[0]]
        is_gone = parts[0] == "apis" and parts[1] in self.server_of.unserved
        if is_gone or (parts[0] == "apis" and f"{parts[1]}/{parts[2]}" != struct().api_version):
            self.send(404, b"404 page not found\n")
        elif len(rest) == 1:
            self.collection(struct, namespace)
        else:
            self.single(struct, namespace, rest[1], rest[2] if len(rest) > 2 else "")

    def discover(self) -> None:
        """Tell the versions of a group, or the resources of a version."""
        versions: dict[str, list[dict[str, str]]] = {}
        for name, struct in KINDS.items():
            group, _, version = struct().api_version.rpartition("/")
            if group == self.parts[1] and group not in self.server_of.unserved:
                versions.setdefault(version, []).append({"name": name})
        if not versions or (len(self.parts) == 3 and self.parts[2] not in versions):
            self.send(404, b"404 page not found\n")
        elif len(self.parts) == 2:
            self.send(200, {"kind": "APIGroup", "versions": [{"version": one} for one in versions]})
        else:
            self.send(200, {"kind": "APIResourceList", "resources": versions[self.parts[2]]})

    def single(self, struct: type[Object], namespace: str, name: str, subresource: str) -> None:
        store, value = self.server_of.store, self.server_of.value
        if subresource == "binding":
            pod = decode_object(json.dumps({"kind": "Pod", "metadata": self.body["metadata"]}).encode())
            assert isinstance(pod, Pod)
            store.bind(pod, self.body["target"]["name"])
            self.send(201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})
        elif self.command == "GET":
            self.send(200, value(store.get(struct, name, namespace)))
        elif self.command == "PATCH":
            type_ = self.headers["Content-Type"].removeprefix("application/").removesuffix("+json")
            patch = self.body
            changed = store.patch(
                struct, name, namespace, patch, type=PATCH_TYPES[type_], subresource=subresource
            )
            self.send(200, value(changed))
        elif self.command == "DELETE":
            conditions = self.body.get("preconditions", {})
            deleted = store.delete(
                struct,
                name,
                namespace,
                uid=conditions.get("uid", ""),
                resource_version=conditions.get("resourceVersion", ""),
                grace_period_seconds=self.body.get("gracePeriodSeconds"),
            )
            success = {"kind": "Status", "status": "Success", "details": {"name": name}}
            self.send(200, value(deleted) if struct is Pod else success)

    def untyped(self, path: str) -> None:
        """Read or write an object that has no struct."""
        raw = self.server_of.raw
        if self.command == "POST":
            path = f"{path}/{self.body['metadata']['name']}"
            raw[path] = {**self.body, "metadata": {**self.body["metadata"], "resourceVersion": "1"}}
        elif path not in raw:
            raise NotFoundError("not found")
        elif self.command == "PUT":
            meta = raw[path]["metadata"]
            if self.body["metadata"]["resourceVersion"] != meta["resourceVersion"]:
                raise ConflictError("the object has been modified")
            version = str(int(meta["resourceVersion"]) + 1)
            raw[path] = {**self.body, "metadata": {**meta, "resourceVersion": version}}
        elif self.command == "PATCH":
            raw[path] |= self.body
        self.send(201 if self.command == "POST" else 200, raw[path])

    def collection(self, struct: type[Object], namespace: str) -> None:
        if self.command == "POST":
            assert "resourceVersion" not in self.body["metadata"]
            created = self.server_of.store.create(decode_object(json.dumps(self.body).encode()))
            self.send(201, self.server_of.value(created))
        elif "watch" in self.query:
            self.watch(struct, namespace)
        else:
            self.page(struct, namespace)

    def selectors(self) -> dict[str, str]:
        names = {"label_selector": "labelSelector", "field_selector": "fieldSelector"}
        return {ours: self.query.get(theirs, "") for ours, theirs in names.items()}

    def page(self, struct: type[Object], namespace: str) -> None:
        owner = self.server_of
        objects, version = owner.store.list(struct, namespace, **self.selectors())
        first, meta = int(self.query.get("continue", "0")), {"resourceVersion": version}
        limit = min(int(self.query.get("limit", "1000000")), owner.page or 1000000)
        items = [owner.value(one) for one in objects[first : first + limit]]
        for item in items:
            del item["kind"], item["apiVersion"]
        if first + limit < len(objects):
            meta["continue"] = str(first + limit)
        self.send(200, {"kind": f"{struct.__name__}List", "metadata": meta, "items": items})

    # ---- watches ----

    def watch(self, struct: type[Object], namespace: str) -> None:
        owner, store = self.server_of, self.server_of.store
        is_list = "sendInitialEvents" in self.query
        if is_list and not owner.streams_lists:
            self.send(422, status(422, "Invalid", "sendInitialEvents: Forbidden"))
            return
        objects, version = store.list(struct, namespace, **self.selectors())
        if not is_list:
            version = self.query.get("resourceVersion", "")
        watch = store.watch(struct, namespace, resource_version=version, **self.selectors())
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if is_list:
                for obj in objects:
                    self.line({"type": "ADDED", "object": owner.value(obj)})
                self.bookmark(struct, version, {"k8s.io/initial-events-end": "true"})
            while not owner.stopping.is_set():
                self.events(struct, watch.poll())
                watch.wait(0.25)
        except ResourceExpiredError as error:
            self.line({"type": "ERROR", "object": status(410, "Expired", str(error))})
        finally:
            watch.close()
        self.line(None)

    def events(self, struct: type[Object], events: list[Any]) -> None:
        for event in events:
            self.line({"type": event.type, "object": self.server_of.value(event.object)})

    def bookmark(self, struct: type[Object], version: str, annotations: dict[str, str]) -> None:
        meta = {"resourceVersion": version, "annotations": annotations, "creationTimestamp": None}
        value = {"kind": struct.__name__, "metadata": meta, "spec": {"containers": None}}
        self.line({"type": "BOOKMARK", "object": value})

    def line(self, value: Any) -> None:
        data = b"" if value is None else json.dumps(value).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()
