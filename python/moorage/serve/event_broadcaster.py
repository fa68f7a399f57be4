"""Writes events (events.k8s.io/v1) to an API server beside the scheduling; a failed write delays nothing.

Equal events of one object become a series (client-go v0.36, tools/events/event_broadcaster.go).
"""

from __future__ import annotations

import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from queue import Empty, Full, Queue
from threading import Lock, Thread, current_thread
from typing import Any

import msgspec

from moorage.framework.plugin.handle import Event, EventRecorder
from moorage.objects import Object, Pod
from moorage.store import ApiError, NotFoundError
from moorage.store.api import Connection

logger = logging.getLogger("moorage.serve")

MAX_QUEUED = 10_000
"""Events that wait to be written at most; later ones are dropped, and counted."""
SERIES = 360.0
"""Seconds after which an equal event begins a new object, not a series."""
MAX_KNOWN = 4096
"""Events that are remembered for series at most."""
WRITERS = 2
"""Threads that always write."""
MAX_WRITERS = 16
"""Threads at most: as many as bind pods."""
BACKLOG = 100
"""Events that wait for each thread before another is started. On a machine that is busy with bindings these
come first; behind a slow server two threads would never catch up."""


class EventBroadcaster(EventRecorder):
    """A recorder whose events are written by threads.

    Parameters
    ----------
    scheduler_name : str
        Reports events about objects other than pods.
    now : callable
        Returns seconds since 1970.

    Attributes
    ----------
    dropped, failed : int
        The numbers of events that were not written, because too many waited or the server refused.
    """

    def __init__(self, connection: Connection, scheduler_name: str, now: Callable[[], float]) -> None:
        super().__init__()
        self._connection, self._name, self._now = connection, scheduler_name, now
        self._host = socket.gethostname()
        self._queue: Queue[Event | None] = Queue(MAX_QUEUED)
        self._known: OrderedDict[tuple[str, ...], tuple[str, int, float]] = OrderedDict()
        self._lock = Lock()  # of `_known`
        self._numbers = count(1)
        self.dropped = self.failed = 0
        self._writers: list[Thread] = []
        for _ in range(WRITERS):
            self._start_writer(self._work)

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        """Record an event, to be written soon; see `EventRecorder.event`."""
        super().event(regarding, type, reason, action, note)
        self._pass_on()

    def event_of_each(
        self, regarding: Sequence[Object], type: str, reason: str, action: str, note: str
    ) -> None:
        """Record events, to be written soon; see `EventRecorder.event_of_each`."""
        super().event_of_each(regarding, type, reason, action, note)
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass the recorded events on to the threads."""
        for event in self.events:
            try:
                self._queue.put_nowait(event)
            except Full:
                self.dropped += 1
        self._recorded.clear()
        if len(self._writers) < MAX_WRITERS and self._queue.qsize() > BACKLOG * len(self._writers):
            self._start_writer(self._help)

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits, and end the threads.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which the rest is given up.
        """
        until = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
        except Full:
            return
        for writer in list(self._writers):
            writer.join(max(0.0, until - time.monotonic()))

    def _start_writer(self, work: Callable[[], None]) -> None:
        writer = Thread(target=work, name="events", daemon=True)
        self._writers.append(writer)
        writer.start()

    def _work(self) -> None:
        """Write events until there is None, which all threads read."""
        while (event := self._queue.get()) is not None:
            self._try_to_write(event)
        self._queue.put(None)

    def _help(self) -> None:
        """Write events until none waits."""
        with suppress(Empty):
            while (event := self._queue.get_nowait()) is not None:
                self._try_to_write(event)
            self._queue.put(None)
        self._writers.remove(current_thread())

    def _try_to_write(self, event: Event) -> None:
        try:
            self._write(event)
        except ApiError as error:
            self.failed += 1
            logger.warning("event not written: %s error=%s", _described(event), error)
        except Exception:
            self.failed += 1
            logger.exception("event not written: %s", _described(event))
        finally:
            self._queue.task_done()

    def flush(self) -> None:
        """Wait until the events that were recorded are written or have failed."""
        self._queue.join()

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


def _described(event: Event) -> str:
    meta = event.regarding.metadata
    return f"object={meta.namespace}/{meta.name} reason={event.reason}"


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
