"""Writes events (events.k8s.io/v1) to an API server beside the scheduling; a failed write delays nothing.

Equal events of one object become a series (client-go v0.36, tools/events/event_broadcaster.go).
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from threading import Lock
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec
from msgspec import Struct
from prometheus_client import Histogram

from moorage.engine.framework.handle import Event, EventRecorder, truncated
from moorage.kube import Object, Pod
from moorage.kube.apiserver.validate_object import is_subdomain
from moorage.store import AlreadyExistsError, NotFoundError, UnreachableError

from ..client.connection import Connection, Method
from ..client.http_sessions import JSON
from .writer import RetryLaterError, Writer

MAX_QUEUED = 10_000
"""Events that wait to be written at most; later ones are dropped, and counted."""
SERIES = 360.0
"""Seconds after which an equal event begins a new object, not a series."""
MAX_KNOWN = 4096
"""Events that are remembered for series at most."""
LAST_EVENTS = 5.0
"""Seconds that events have at the end."""
THREADS = 2
"""Threads while a server is fast: on a machine that is busy with bindings, these go first."""


MAX_TRIES, RETRY_SECONDS = 12, 10.0
"""How often an event is tried while the server does not answer, and the seconds between (client-go)."""
Request = tuple[Method, str, None, bytes, str]
"""The arguments of `Connection.request`."""


class _EventWrite(Struct):
    """An event that is written: its request, once it was sent, and how often nobody has answered."""

    event: Event
    request: Request | None = None
    tries: int = 0


class EventBroadcaster(EventRecorder):
    """A recorder whose events are written by threads. Thread-safe.

    Parameters
    ----------
    connection : Connection
    scheduler_name : str
        Reports events about objects other than pods.
    now : callable
        Returns seconds since 1970.
    durations : Histogram, optional
        See `Writer`.

    Attributes
    ----------
    writer : Writer
        Of the events alone.
    dropped : int
        The number of events that were not written because too many waited.
    """

    def __init__(
        self,
        connection: Connection,
        scheduler_name: str,
        now: Callable[[], float],
        durations: Histogram | None = None,
    ) -> None:
        super().__init__()
        self._connection = connection
        self._name, self._host = scheduler_name, socket.gethostname()
        self._now = now
        self._known: OrderedDict[tuple[str, ...], tuple[str, int, float]] = OrderedDict()
        self._lock = Lock()  # of `_known`
        self._numbers = count(1)
        self.dropped = 0
        self.writer = Writer(
            THREADS,
            throttled=connection.throttled,
            clock=lambda: connection.clock(),
            durations=durations,
        )

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        self.event_of_each([regarding], type, reason, action, note)

    def event_of_each(
        self, regarding: Sequence[Object], type: str, reason: str, action: str, note: str
    ) -> None:
        for one in regarding:
            event = Event(one, type, reason, action, truncated(note))
            if len(self.writer) < MAX_QUEUED:
                self.writer.submit("event", one, partial(self._try, _EventWrite(event)))
            else:
                self.dropped += 1

    def close(self) -> None:
        """Write what waits for some seconds, and no more."""
        self.writer.finish(LAST_EVENTS)

    def flush(self) -> None:
        """Wait until the events that were recorded are written or have failed."""
        self.writer.flush()

    def _try(self, write: _EventWrite) -> None:
        """Write an event. Only an answer of the server drops it."""
        try:
            self._send(write)
        except UnreachableError as error:
            write.tries += 1
            if write.tries == MAX_TRIES:
                raise
            raise RetryLaterError(RETRY_SECONDS) from error

    def _send(self, write: _EventWrite) -> None:
        """Send the request of an event: the same one as before, if an earlier one was not answered."""
        write.request = write.request or self._addition(write.event) or self._creation(write.event)
        try:
            self._connection.request(*write.request)
        except NotFoundError:  # events are deleted after an hour, or by a user
            if write.request[0] != "PATCH":
                raise
            write.request = self._creation(write.event)
            self._connection.request(*write.request)
        except AlreadyExistsError:
            if not write.tries:
                raise

    def _key(self, event: Event) -> tuple[str, ...]:
        """Return what equal events have in common; the last value is who reports them."""
        regarding, name = event.regarding, self._name
        if isinstance(regarding, Pod) and regarding.spec.scheduler_name:
            name = regarding.spec.scheduler_name
        meta = regarding.metadata
        return regarding.kind, meta.uid, meta.resource_version, event.type, event.reason, event.action, name

    def _addition(self, event: Event) -> Request | None:
        """Return the request that counts an event in the series of an equal one; None without a series."""
        key, now = self._key(event), self._now()
        written, number, last = self._known.get(key, ("", 0, 0.0))
        if not written or now - last >= SERIES:
            return None
        self._remember(key, written, number + 1, now)
        series = {"series": {"count": number + 1, "lastObservedTime": stamp(now)}}
        body = msgspec.json.encode(series)
        return "PATCH", f"{_path(event)}/{written}", None, body, "application/strategic-merge-patch+json"

    def _creation(self, event: Event) -> Request:
        """Return the request that creates an event."""
        key, now = self._key(event), self._now()
        written = event_name(event.regarding.name, int(now * 1e6) * 1000 + next(self._numbers) % 1000)
        self._remember(key, written, 1, now)
        value = _value(event, written, key[-1], stamp(now))
        value["reportingInstance"] = f"{key[-1]}-{self._host}"
        return "POST", _path(event), None, msgspec.json.encode(value), JSON

    def _remember(self, key: tuple[str, ...], name: str, number: int, now: float) -> None:
        with self._lock:
            self._known[key] = name, number, now
            self._known.move_to_end(key)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)


def stamp(seconds: float) -> str:
    """Format a time with microseconds (meta/v1 MicroTime).

    Parameters
    ----------
    seconds : float
        Since 1970.
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event_name(regarding: str, nanoseconds: int) -> str:
    """Return the name of an event about an object: a UUID where the usual one would be too long for a name
    (client-go v0.36, tools/record/util/util.go)."""
    name = f"{regarding}.{nanoseconds:x}"
    return name if is_subdomain(name) else str(uuid5(NAMESPACE_OID, name))


def _namespace(event: Event) -> str:
    return event.regarding.metadata.namespace or "default"


def _path(event: Event) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(event)}/events"


def _value(event: Event, written: str, name: str, time: str) -> dict[str, Any]:
    """Return the object of an event."""
    regarding, meta = event.regarding, event.regarding.metadata
    reference = {
        "apiVersion": regarding.api_version or type(regarding)().api_version,
        "kind": regarding.kind or type(regarding).__name__,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": written, "namespace": _namespace(event)},
        "eventTime": time,
        "type": event.type,
        "reason": event.reason,
        "action": event.action or event.reason,
        "note": event.note,
        "reportingController": name,
        "regarding": {key: value for key, value in reference.items() if value},
    }
