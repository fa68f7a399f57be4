"""ApiClient: an `ObjectClient` over an API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from operator import attrgetter
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec

from moorage.objects import Object, ObjectMeta, Pod
from moorage.objects.apply.merge_patch import merge_difference
from moorage.objects.plain import plain
from moorage.objects.read.one_object import read_one
from moorage.objects.read.python_values import Source
from moorage.objects.read.write import object_to_dict
from moorage.store.errors import (
    ApiError,
    BadRequestError,
    InvalidObjectError,
    NotFoundError,
    ResourceExpiredError,
    ServerError,
    UnreachableError,
    other_uid,
    stale,
)
from moorage.store.kinds import struct_named
from moorage.store.protocol import ListResult, Patch, PatchType, Selector, Watcher

from .api_watch import ApiWatch, Arrivals, NoWatch
from .connection import RECONNECTS, Connection
from .discovery import Discovery, Endpoint
from .server_errors import error_of
from .wire_format import (
    decode_bookmark,
    decode_event,
    decode_list,
    decode_object_of,
    decode_status,
    is_status,
)

T = TypeVar("T", bound=Object)

PAGE = 500
"""Objects of a page of a list, as client-go asks for them."""
LIST_TIMEOUT = "300"
"""Seconds that a list may take as a stream."""
CLOSE_TIMEOUT = 1.0
"""Seconds that the threads of all watches have to end."""
BINDING_TIME = 1.0
"""Seconds in which a server has carried out a binding whose connection broke."""
PATCHES: dict[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
_NOT_SERVED = "the server could not find the requested resource"


class ApiClient:
    """Reads and writes the objects of an API server; see `ObjectClient`. Thread-safe.

    The structs have the fields that scheduling reads. What else an object has is kept: `update` sends the
    difference to the stored object. A kind that the server does not serve, in no version, has no objects; in
    another version than the struct's, its objects are converted when they are read.

    Parameters
    ----------
    clock : callable, optional
        Returns seconds since 1970.

    Attributes
    ----------
    connection : Connection
    arrivals : Arrivals
        Counts the events of all watches.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.time) -> None:
        self.connection = connection
        self.arrivals = Arrivals()
        self._clock = clock
        self._discovery = Discovery(connection)
        self._streams_lists = True  # until the server refuses to
        self._watches: list[ApiWatch[Any]] = []
        self._lock = Lock()

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self._clock()

    def serves(self, kind: type[Object] | str) -> bool:
        """Whether the server serves a kind, in any version."""
        return self._discovery.endpoint(_struct(kind)) is not None

    def silent_watches(self, limit: float) -> list[str]:
        """Return the kinds whose watch has ended unseen, or has not heard from the server for too long.

        Parameters
        ----------
        limit : float
            In seconds.
        """
        now = self.connection.clock()
        with self._lock:
            watches = [one for one in self._watches if not one.is_closed]
        return [one.kind for one in watches if one.is_over or now - one.heard > limit]

    # ---- reading ----

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object; see `ObjectClient.get`.

        Raises
        ------
        ApiError
        """
        struct: type[T] = _struct(kind)
        endpoint = self._endpoint(struct)
        return self._decoded(struct, endpoint, self.connection.request("GET", endpoint.path(namespace, name)))

    def list(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> ListResult[T]:
        """List the objects of a kind: as a stream where the server has that, else page by page.

        The result is not older than the call.

        Returns
        -------
        objects : list of Object
            In the order of their keys.

        Raises
        ------
        ApiError
        """
        struct: type[T] = _struct(kind)
        endpoint = self._discovery.endpoint(struct)
        if endpoint is None:
            return [], "0"
        selectors = _selectors(label_selector if isinstance(label_selector, str) else "", field_selector)
        listed = self._streamed(struct, endpoint, namespace, selectors) if self._streams_lists else None
        objects, version = self._paged(struct, endpoint, namespace, selectors) if listed is None else listed
        if not isinstance(label_selector, str):
            objects = [one for one in objects if label_selector.matches(one.metadata.labels)]
        return sorted(objects, key=attrgetter("key")), version

    def watch(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Watcher[T]:
        """Watch the objects of a kind, by a thread of its own.

        Parameters
        ----------
        resource_version : str, optional
            The watch begins with the first event after it; without one with the objects, as ADDED.

        Returns
        -------
        Watcher
            Its `poll` raises the errors of the server.

        Raises
        ------
        BadRequestError
            The label selector is no text.
        """
        struct: type[T] = _struct(kind)
        endpoint = self._discovery.endpoint(struct)
        if not isinstance(label_selector, str):
            raise BadRequestError("a watch over an API server needs the text of its label selector")
        if endpoint is None:
            return NoWatch(self.arrivals)
        version = "" if resource_version == "0" else resource_version
        where = endpoint.path(namespace), _selectors(label_selector, field_selector), version, self.arrivals
        watch = ApiWatch(self.connection, struct, *where, endpoint.converts)
        with self._lock:
            self._watches = [one for one in self._watches if not (one.is_over and one.is_closed)] + [watch]
        return watch

    # ---- writing ----

    @overload
    def create(self, obj: T) -> T: ...

    @overload
    def create(self, obj: Source) -> Object: ...

    def create(self, obj: Object | Source) -> Object:
        """Store a new object; see `ObjectClient.create`.

        Parameters
        ----------
        obj : Object, dict, str, bytes, Path, file object, or object of a Kubernetes client
            What is no `Object` is read as by `load`; the server validates it and sets defaults.

        Returns
        -------
        Object
            As stored.

        Raises
        ------
        ApiError
        InputError
            It is no `Object`, and cannot be read.
        """
        obj = read_one(obj)
        struct = type(obj)
        endpoint = self._endpoint(struct)
        value = object_to_dict(obj) | {"apiVersion": endpoint.api_version, "kind": struct.__name__}
        of_server = "resourceVersion", "managedFields"
        value["metadata"] = {key: one for key, one in value["metadata"].items() if key not in of_server}
        path = endpoint.path(obj.namespace)
        return self._decoded(struct, endpoint, self.connection.request("POST", path, None, _encoded(value)))

    def update(self, obj: T) -> T:
        """Replace what the struct has of an object, its status included; see `ObjectClient.update`.

        The stored object is read first, and the difference is sent as a merge patch: what the struct does not
        have stays as it is.

        Parameters
        ----------
        obj : Object
            Its UID and its resource version, where it has them, are preconditions.

        Returns
        -------
        Object
            As stored.

        Raises
        ------
        NotFoundError, ConflictError, ApiError
        """
        struct = type(obj)
        current = self.get(struct, obj.name, obj.namespace)
        meta, old = obj.metadata, current.metadata
        if meta.uid and meta.uid != old.uid:
            raise other_uid(obj, old.uid)
        if meta.resource_version and meta.resource_version != old.resource_version:
            raise stale(obj)
        before, after = plain(current), plain(obj)
        for value in (before, after):
            for name in _SERVERS:
                value.get("metadata", {}).pop(name, None)
        difference = merge_difference(before, after)
        status = difference.pop("status", None)
        for name in ("apiVersion", "kind"):
            difference.pop(name, None)
        for change, subresource in ((difference, ""), ({"status": status}, "status")):
            if change and change != {"status": None}:
                guard = {"uid": old.uid, "resourceVersion": current.metadata.resource_version}
                change["metadata"] = change.get("metadata", {}) | guard
                current = self.patch(struct, obj.name, obj.namespace, change, subresource=subresource)
        return current

    def patch(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str,
        patch: Patch,
        *,
        type: PatchType = "merge",
        subresource: str = "",
    ) -> T:
        """Change parts of an object; see `ObjectClient.patch`.

        Parameters
        ----------
        type : {"merge", "strategic", "json"}, optional

        Returns
        -------
        Object
            As stored.

        Raises
        ------
        ApiError
        """
        struct: Any = _struct(kind)
        endpoint = self._endpoint(struct)
        path = endpoint.path(namespace, name, subresource)
        body = self.connection.request("PATCH", path, None, _encoded(patch), PATCHES[type])
        changed: T = self._decoded(struct, endpoint, body)
        return changed

    def delete(
        self,
        kind: type[T] | str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> T:
        """Remove an object; see `ObjectClient.delete`.

        Parameters
        ----------
        uid, resource_version : str, optional
            Preconditions.

        Returns
        -------
        Object
            As the server answers. For kinds whose objects it does not return, name and namespace alone.

        Raises
        ------
        NotFoundError, ConflictError, ApiError
        """
        struct: type[T] = _struct(kind)
        endpoint = self._endpoint(struct)
        guard = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions := {key: value for key, value in guard.items() if value}:
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        body = self.connection.request("DELETE", endpoint.path(namespace, name), None, _encoded(options))
        if is_status(body):
            return struct(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid))
        return self._decoded(struct, endpoint, body)

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node; see `ObjectClient.bind`. The answer, a Status, is not read.

        If the answer is lost, or the server has failed, the pod is read: a caller that took it for unbound
        would give its room to another pod.

        Parameters
        ----------
        pod : Pod
            Its name, namespace and UID count.

        Raises
        ------
        NotFoundError
            There is no such pod.
        ConflictError
            It has a node already, or another UID.
        InvalidObjectError
            The node has no name.
        ApiError
            The server refuses, or cannot be reached.
        """
        if not node:
            raise InvalidObjectError("target.name: Required value")
        meta = {"name": pod.name, "namespace": pod.namespace}
        if pod.metadata.uid:
            meta["uid"] = pod.metadata.uid
        target = {"kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        path = self._endpoint(Pod).path(pod.namespace, pod.name, "binding")
        try:
            self.connection.request("POST", path, None, _encoded(binding))
        except (ServerError, UnreachableError):
            self.connection.sleep(BINDING_TIME)
            if not self._is_on(pod, node):
                raise

    def _is_on(self, pod: Pod, node: str) -> bool:
        """Whether a server that can be reached has a pod on a node."""
        try:
            found = self.get(Pod, pod.name, pod.namespace)
        except ApiError:
            return False
        return found.spec.node_name == node and pod.metadata.uid in ("", found.metadata.uid)

    # ---- the end ----

    def close(self) -> None:
        """Close all watches and connections. A thread that waits to connect again ends later by itself."""
        self.close_watches()
        self.connection.close()

    def close_watches(self) -> None:
        """Close all watches."""
        with self._lock:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.close()
        until = self.connection.clock() + CLOSE_TIMEOUT
        for watch in watches:
            watch.join(max(0.0, until - self.connection.clock()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- parts ----

    def _endpoint(self, struct: type[Object]) -> Endpoint:
        """Return the endpoint of a kind that the request needs."""
        endpoint = self._discovery.endpoint(struct)
        if endpoint is None:
            raise NotFoundError(f"{_NOT_SERVED}: {struct.__name__} ({struct().api_version})")
        return endpoint

    def _decoded(self, struct: type[T], endpoint: Endpoint, body: bytes) -> T:
        return decode_object_of(struct, body, converts=endpoint.converts)

    def _streamed(
        self, struct: type[T], endpoint: Endpoint, namespace: str, selectors: dict[str, str]
    ) -> tuple[Iterable[T], str] | None:
        """List as a stream (KEP-3157): the objects as ADDED events up to a bookmark. None where the server
        does not do that."""
        params = selectors | {
            "watch": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": LIST_TIMEOUT,
        }
        for attempt in range(RECONNECTS + 1):
            try:
                return self._read_list(struct, endpoint, namespace, params)
            except (InvalidObjectError, BadRequestError, ServerError):
                self._streams_lists = False
                return None
            except UnreachableError:
                if attempt == RECONNECTS:
                    raise
                self.connection.sleep(min(0.2 * 2**attempt, 1.0))
        raise AssertionError("the last attempt has returned or raised")

    def _read_list(
        self, struct: type[T], endpoint: Endpoint, namespace: str, params: dict[str, str]
    ) -> tuple[Iterable[T], str]:
        objects: dict[str, T] = {}
        with self.connection.stream(endpoint.path(namespace), params) as stream:
            for line in stream:
                event = decode_event(line)
                if event.type == "ERROR":
                    raise error_of(decode_status(event))
                if event.type == "BOOKMARK":
                    version, ends_list = decode_bookmark(event)
                    if ends_list:
                        return objects.values(), version
                    continue
                obj = decode_object_of(struct, event.object, converts=endpoint.converts)
                if event.type == "DELETED":
                    objects.pop(obj.key, None)
                else:
                    objects[obj.key] = obj
        raise UnreachableError(f"the list of {endpoint.resource} broke off")

    def _paged(
        self, struct: type[T], endpoint: Endpoint, namespace: str, selectors: dict[str, str]
    ) -> tuple[Iterable[T], str]:
        """List page by page; as a whole if the server no longer has the version of the first page."""
        path = endpoint.path(namespace)
        params, objects = selectors | {"limit": str(PAGE)}, list[T]()
        while True:
            try:
                body = self.connection.request("GET", path, params)
            except ResourceExpiredError:
                if "continue" not in params:
                    raise
                params, objects = selectors, []
                continue
            page = decode_list(struct, body, converts=endpoint.converts)
            objects += page.items or ()
            if not page.metadata.continue_:
                return objects, page.metadata.resource_version
            params = params | {"continue": page.metadata.continue_}


_SERVERS = (
    *("resourceVersion", "uid", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
"""Fields of metadata that the server alone sets."""


def _struct(kind: type[T] | str) -> type[T]:
    return struct_named(kind) if isinstance(kind, str) else kind


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the parameters of selectors."""
    values = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in values.items() if value}


def _encoded(value: Patch) -> bytes:
    return msgspec.json.encode(value)
