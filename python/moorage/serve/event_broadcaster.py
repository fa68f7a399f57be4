"""Writes events (events.k8s.io/v1) to an API server beside the scheduling; a failed write delays nothing.

Equal events of one object become a series (client-go v0.36, tools/events/event_broadcaster.go).
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import msgspec
from prometheus_client import Histogram

from moorage.framework.plugin.handle import Event, EventRecorder, truncated
from moorage.objects import Object, Pod
from moorage.store import NotFoundError
from moorage.store.api import Connection

from .writer import Writer

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
                self.writer.submit("event", one, partial(self._write, event))
            else:
                self.dropped += 1

    def close(self) -> None:
        """Write what waits for some seconds, and no more."""
        self.writer.finish(LAST_EVENTS)

    def flush(self) -> None:
        """Wait until the events that were recorded are written or have failed."""
        self.writer.flush()

    def _write(self, event: Event) -> None:
        """Write an event, or count it in the series of an equal one."""
        regarding, now = event.regarding, self._now()
        meta, name = regarding.metadata, self._name
        if isinstance(regarding, Pod) and regarding.spec.scheduler_name:
            name = regarding.spec.scheduler_name
        key = (regarding.kind, meta.uid, meta.resource_version, event.type, event.reason, event.action, name)
        namespace = meta.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        written, number, last = self._known.get(key, ("", 0, 0.0))
        if written and now - last < SERIES:
            self._remember(key, written, number + 1, now)
            series = {"series": {"count": number + 1, "lastObservedTime": stamp(now)}}
            body, type_ = msgspec.json.encode(series), "application/strategic-merge-patch+json"
            with suppress(NotFoundError):  # events are deleted after an hour, or by a user
                self._connection.request("PATCH", f"{path}/{written}", None, body, type_)
                return
        written = f"{meta.name}.{int(now * 1e6) * 1000 + next(self._numbers) % 1000:x}"
        self._remember(key, written, 1, now)
        value = _value(event, written, namespace, name, stamp(now)) | {
            "reportingInstance": f"{name}-{self._host}"
        }
        self._connection.request("POST", path, None, msgspec.json.encode(value))

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


def _value(event: Event, written: str, namespace: str, name: str, time: str) -> dict[str, Any]:
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
        "metadata": {"name": written, "namespace": namespace},
        "eventTime": time,
        "type": event.type,
        "reason": event.reason,
        "action": event.action or event.reason,
        "note": event.note,
        "reportingController": name,
        "regarding": {key: value for key, value in reference.items() if value},
    }
