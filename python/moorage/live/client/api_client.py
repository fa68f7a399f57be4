"""ApiClient: an `ObjectClient` over an API server."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec
from msgspec.structs import replace

from moorage.kube import Object, ObjectMeta, Pod
from moorage.kube.apiserver.merge_patch import merge_difference
from moorage.kube.plain import object_to_dict, plain
from moorage.kube.read.load import read_one
from moorage.kube.read.python_values import Source
from moorage.store.errors import (
    ApiError,
    BadRequestError,
    InvalidObjectError,
    NotFoundError,
    NotSentError,
    ServerError,
    UnreachableError,
    check_current,
    struct_named,
)
from moorage.store.protocol import ListResult, Patch, PatchType, Selector

from .collection import Collection, Discovery, Endpoint, decode_object_of, is_status
from .connection import Connection
from .reflector import ReceivedCounts, Reflector

T = TypeVar("T", bound=Object)

LOOK = 1.0
"""Seconds between two looks at an event that ends a wait."""
CLOSE_TIMEOUT = 1.0
"""Seconds that all threads have to end."""
BINDING_TIME, LOOKS = 1.0, 300
"""Seconds in which a server has carried out a binding whose connection broke, and how often the pod is read
then, until the server tells where it is."""
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
    arrivals : ReceivedCounts
        Counts the news of all reflectors.
    """

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.time) -> None:
        self.connection = connection
        self.arrivals = ReceivedCounts()
        self._clock = clock
        self._discovery = Discovery(connection)

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self._clock()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """What follows a kind each, and is not closed."""
        return self.arrivals.reflectors

    def await_lists(self, stop: Event) -> bool:
        """Wait until all reflectors have listed their objects; False if an event is set before."""
        while not stop.is_set():
            seen = self.arrivals.count
            if all(reflector.is_listed for reflector in self.reflectors):
                return True
            self.arrivals.wait(seen, LOOK)
        return False

    # ---- reading ----

    def get(self, kind: type[T] | str, name: str, namespace: str = "") -> T:
        """Return one object; see `ObjectClient.get`."""
        struct: type[T] = _struct(kind)
        endpoint = self._endpoint(struct)
        body = self.connection.request("GET", endpoint.path(namespace, name))
        return self._decoded(struct, endpoint, body, namespace, name)

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
        """
        struct: type[T] = _struct(kind)
        endpoint = self._discovery.endpoint(struct)
        if endpoint is None:
            return [], "0"
        selectors = _selectors(label_selector if isinstance(label_selector, str) else "", field_selector)
        objects, version = Collection(self.connection, struct, endpoint, namespace, selectors).list()
        if not isinstance(label_selector, str):
            objects = [obj for obj in objects if label_selector.matches(obj.metadata.labels)]
        return objects, version

    def follow(
        self,
        kind: type[T] | str,
        namespace: str = "",
        *,
        label_selector: Selector = "",
        field_selector: str = "",
    ) -> Reflector[T]:
        """Follow the objects of a kind by a thread of its own.

        Raises
        ------
        BadRequestError
            The label selector is no text.
        """
        struct: type[T] = _struct(kind)
        if not isinstance(label_selector, str):
            raise BadRequestError("a watch over an API server needs the text of its label selector")
        selectors = _selectors(label_selector, field_selector)

        def find(heard: Callable[[], None]) -> Collection[T] | None:
            endpoint = self._discovery.find(struct)
            if endpoint is None:
                return None
            return Collection(self.connection, struct, endpoint, namespace, selectors, heard)

        return Reflector(struct.__name__, find, self.connection, self.arrivals)

    # ---- writing ----

    @overload
    def create(self, obj: T) -> T: ...

    @overload
    def create(self, obj: Source) -> Object: ...

    def create(self, obj: Object | Source) -> Object:
        """Store a new object; see `ObjectClient.create`. The server validates it and sets defaults."""
        obj, _ = read_one(obj)
        struct = type(obj)
        endpoint = self._endpoint(struct)
        value = object_to_dict(obj) | {"apiVersion": endpoint.api_version, "kind": struct.__name__}
        of_server = "resourceVersion", "managedFields"
        value["metadata"] = {key: part for key, part in value["metadata"].items() if key not in of_server}
        path = endpoint.path(obj.namespace)
        body = self.connection.request("POST", path, None, _encoded(value))
        return self._decoded(struct, endpoint, body, obj.namespace, obj.name)

    def update(self, obj: T) -> T:
        """Replace what the struct has of an object; see `ObjectClient.update`.

        The stored object is read first, and the difference is sent as a merge patch: what the struct does not
        have stays as it is.
        """
        struct = type(obj)
        current = self.get(struct, obj.name, obj.namespace)
        meta, old = obj.metadata, current.metadata
        check_current(obj, current)
        grace = meta.deletion_grace_period_seconds
        kept = replace(
            meta,
            deletion_timestamp=old.deletion_timestamp or meta.deletion_timestamp,
            deletion_grace_period_seconds=old.deletion_grace_period_seconds if grace is None else grace,
        )
        before, after = plain(current), plain(replace(obj, metadata=kept))
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
        """Change parts of an object; see `ObjectClient.patch`."""
        struct: Any = _struct(kind)
        endpoint = self._endpoint(struct)
        path = endpoint.path(namespace, name, subresource)
        body = self.connection.request("PATCH", path, None, _encoded(patch), PATCHES[type])
        changed: T = self._decoded(struct, endpoint, body, namespace, name)
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

        For kinds whose objects the server does not return, the result has name and namespace alone.
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
        return self._decoded(struct, endpoint, body, namespace, name)

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to a node; see `ObjectClient.bind`.

        If the answer is lost or no Status, or the server has failed, the pod is read until the server tells
        where it is: a caller that took it for unbound would give its room to another pod.

        Raises
        ------
        InvalidObjectError
            The node has no name.
        ServerError
            The server has failed or sent no Status, and the pod is not on the node.
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
            if not is_status(self.connection.request("POST", path, None, _encoded(binding))):
                raise ServerError("the API server has sent no Status in answer to a binding")
        except NotSentError:
            raise
        except (ServerError, UnreachableError):
            if not self._is_on(pod, node):
                raise

    def _is_on(self, pod: Pod, node: str) -> bool:
        """Whether the server has a pod on a node, as soon as it tells. While it starts it is away, knows no
        user, or gives nobody a right."""
        for _ in range(LOOKS):
            self.connection.sleep(BINDING_TIME)
            try:
                stored = self.get(Pod, pod.name, pod.namespace)
            except NotFoundError:
                return False
            except ApiError:
                continue
            return stored.spec.node_name == node and pod.metadata.uid in ("", stored.metadata.uid)
        return False

    # ---- the end ----

    def close(self) -> None:
        """Close all reflectors and connections."""
        reflectors = self.reflectors
        for reflector in reflectors:
            reflector.close()
        until = self.connection.clock() + CLOSE_TIMEOUT
        for reflector in reflectors:
            reflector.join(max(0.0, until - self.connection.clock()))
        self.connection.close()

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

    def _decoded(self, struct: type[T], endpoint: Endpoint, body: bytes, namespace: str, name: str) -> T:
        """Return the object of an answer; ServerError if it is another than the one of that name."""
        obj = decode_object_of(struct, body, converts=endpoint.converts)
        if name not in ("", obj.name) or (endpoint.is_namespaced and namespace not in ("", obj.namespace)):
            raise ServerError(f"the API server has sent {obj.key!r} in place of {struct.__name__} {name!r}")
        return obj


_SERVERS = ("resourceVersion", "uid", "generation", "creationTimestamp")
"""Fields of metadata that the server alone sets, whatever it is sent."""


def _struct(kind: type[T] | str) -> type[T]:
    return struct_named(kind) if isinstance(kind, str) else kind


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the parameters of selectors."""
    values = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in values.items() if value}


def _encoded(value: Patch) -> bytes:
    return msgspec.json.encode(value)
