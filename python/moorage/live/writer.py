"""Writes to an API server beside the scheduling: none waits for another but for those of the same object."""

from __future__ import annotations

import logging
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from itertools import chain, count, islice
from threading import Condition, Lock, Thread
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid5

import msgspec
from msgspec import Struct
from prometheus_client import Histogram

from moorage.engine.framework.handle import Event, EventRecorder, Then, Writes, log_failure, truncated
from moorage.engine.scheduler.scheduler_metrics import exponential_buckets
from moorage.kube import Object, Pod
from moorage.kube.model.meta import is_subdomain
from moorage.lazy import NamedTuple
from moorage.store import AlreadyExistsError, ApiError, NotFoundError, UnreachableError

from .client.connection import Connection, Method
from .http_common import JSON

logger = logging.getLogger("moorage.serve")

T = TypeVar("T")

THREADS = 16
"""Writes that may begin within `PATIENCE`. So a fast server gets few connections."""
PATIENCE = 0.5
"""Seconds after which a write counts as slow: another may begin in its place. On a busy machine, 32 threads
share the interpreter for less; more of them would cost a burst half again as much processor time."""
BACKLOG, MOST = 32, 32
"""Writes that wait for each thread more than `threads`, up to so many."""
MAX_THREADS = 2000
"""Writes that are carried out at once at most, slow ones included."""


class RetryLaterError(Exception):
    """Raised by a write that is to be carried out again after some seconds; it keeps its place."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def write_durations() -> Histogram:
    """Return upstream's metric of the writes that its dispatcher carries out."""
    return Histogram(
        "scheduler_async_api_call_execution_duration_seconds",
        "Duration of writes to the API server that are carried out beside the scheduling.",
        ("call_type", "result"),
        registry=None,
        buckets=exponential_buckets(0.001, 2, 15),
    )


class Write:
    """A write of one object.

    Attributes
    ----------
    what : str
        The kind of write, for logs and metrics: upstream's names where it has one.
    action : callable
        Is called in a thread.
    submitted, began : float
        Seconds by the clock of the writer.
    """

    __slots__ = ("about", "action", "began", "error", "submitted", "then", "what")

    def __init__(self, what: str, about: Object, action: Callable[[], object], then: Then | None) -> None:
        self.what, self.about, self.action, self.then = what, about, action, then
        self.submitted = self.began = 0.0
        self.error: Exception | None = None


class Pending(NamedTuple):
    """How many writes are carried out, how many wait, and the age of the oldest in seconds."""

    running: int
    waiting: int
    age: float


NOTHING = Pending(0, 0, 0.0)


class Writer(Writes):
    """Carries out writes by threads that only wait, as many as there are slow writes.

    Writes of one object (its UID) keep their order. The threads are daemons: the interpreter ends without
    them.

    Parameters
    ----------
    threads : int, optional
        See `THREADS`.
    throttled : callable, optional
        Returns how many requests wait for the limit of requests per second. They are not slow.
    clock : callable, optional
        Returns seconds.
    on_end : callable, optional
        Is called by the threads after each write whose end somebody wants to know.
    patience : float, optional
        See `PATIENCE`.

    Attributes
    ----------
    durations : Histogram
        Seconds that writes took, by what and result (success or error).
    """

    is_beside = True

    def __init__(
        self,
        threads: int = THREADS,
        *,
        throttled: Callable[[], int] = int,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[], object] = int,
        patience: float = PATIENCE,
        durations: Histogram | None = None,
    ) -> None:
        self._threads, self._throttled, self._clock = threads, throttled, clock
        self._on_end, self._patience = on_end, patience
        lock = Lock()
        self._changed, self._all_ended = Condition(lock), Condition(lock)
        self._of_object: dict[Hashable, deque[Write]] = {}
        self._ready = deque[Hashable]()  # objects with writes of which none is carried out
        self._later: list[tuple[float, str]] = []  # a heap of those whose first write is put off
        self._running: dict[Write, None] = {}  # in the order of their begin
        self._ended = deque[Write]()
        self._living = self._idle = self._size = 0
        self._is_closed = False
        self.durations = write_durations() if durations is None else durations

    def submit(
        self,
        what: str,
        about: Object,
        action: Callable[[], object],
        then: Then | None = None,
    ) -> None:
        """Have a write carried out by a thread; see `Writes.submit`. `collect` calls `then`."""
        write, uid = Write(what, about, action, then), about.metadata.uid
        write.submitted = self._clock()
        with self._changed:
            writes = self._of_object.setdefault(uid, deque())
            last = writes[-1] if writes else write
            if last is not write and self._replaces(write, last):
                last.action = action.after(last.action)  # type: ignore[attr-defined]
                return
            writes.append(write)
            self._size += 1
            if len(writes) == 1 and not self._is_closed:
                self._ready.append(uid)
                self._call()

    def _replaces(self, write: Write, last: Write) -> bool:
        """Whether one write can take the place of two of its object."""
        is_alike = write.what == last.what and type(write.action) is type(last.action)
        return is_alike and hasattr(write.action, "after") and last not in self._running

    def future(self, what: str, about: Object, action: Callable[[], T]) -> Future[T]:
        """Have a write carried out by a thread, whose result or exception is wanted."""
        future = Future[T]()

        def carry_out() -> None:
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

        self.submit(what, about, carry_out, lambda _: None)
        return future

    def collect(self) -> None:
        """Call `then` of the writes that have ended since the last call, in this thread."""
        while self._ended:
            write = self._ended.popleft()
            assert write.then is not None
            write.then(write.error)

    def __len__(self) -> int:
        """Return the number of writes that have not ended."""
        return self._size

    def pending(self) -> dict[str, Pending]:
        """Return what has not ended, by what."""
        pending: dict[str, Pending] = {}
        with self._changed:
            now = self._clock()
            for write in chain.from_iterable(self._of_object.values()):
                of = pending.get(write.what, NOTHING)
                is_running = write in self._running
                age = max(of.age, now - write.submitted)
                pending[write.what] = Pending(of.running + is_running, of.waiting + (not is_running), age)
        return pending

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self, timeout: float) -> bool:
        """Wait until all writes have ended, and carry out no others.

        Parameters
        ----------
        timeout : float
            Seconds after which the rest is given up.
        """
        with self._changed:
            self._all_ended.wait_for(lambda: not self._of_object, timeout)
            return not self._close()

    def flush(self) -> None:
        """Wait until all writes have ended."""
        with self._changed:
            self._all_ended.wait_for(lambda: not self._of_object)

    def give_up(self) -> None:
        """Carry out no more writes, and wait for none."""
        with self._changed:
            self._close()

    def _close(self) -> int:
        """End the threads that are idle; return the number of objects whose writes have not ended."""
        self._is_closed = True
        self._ready.clear()
        self._later.clear()
        self._changed.notify_all()
        return len(self._of_object)

    # ---- threads; all with the lock but `_carry_out` -------------------------------------------------------

    def _call(self) -> None:
        """Have a thread look at what is ready: one that is idle, or a new one."""
        if self._idle:
            self._changed.notify()
        elif self._living <= MAX_THREADS:
            try:
                Thread(target=self._work, name="write", daemon=True).start()
            except RuntimeError as error:  # the system allows no more
                logger.warning("writes have to wait: threads=%s error=%s", self._living, error)
            else:
                self._living += 1

    def _work(self) -> None:
        with self._changed:
            while not self._is_closed:
                pause = self._pause()
                if pause == 0.0:
                    self._do(self._begin())
                elif self._idle < self._threads:
                    self._idle += 1
                    self._changed.wait(pause)
                    self._idle -= 1
                else:
                    break
            self._living -= 1

    def _pause(self) -> float | None:
        """Return the seconds until the next write may begin; None without one."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heappop(self._later)[1])
        if not self._ready:
            return self._later[0][0] - now if self._later else None
        most = min(self._threads + len(self._ready) // BACKLOG, MOST)
        if self._throttled() >= most:
            return self._patience
        last = next(islice(reversed(self._running), most - 1, None), None)
        return 0.0 if last is None else max(0.0, last.began + self._patience - now)

    def _begin(self) -> Write:
        write = self._of_object[self._ready.popleft()][0]
        write.began = self._clock()
        self._running[write] = None
        if self._ready and not self._idle:
            self._call()
        return write

    def _do(self, write: Write) -> None:
        """Carry out a write without the lock, and begin the next one of its object."""
        self._changed.release()
        try:
            self._carry_out(write)
        finally:
            self._changed.acquire()
            self._end(write)

    def _carry_out(self, write: Write) -> None:
        try:
            write.action()
        except BaseException as failure:  # SystemExit as well: it would end the thread
            error = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
            write.error = error
            if isinstance(error, RetryLaterError):
                return
            if not isinstance(error, ApiError):
                logger.exception("write has failed: what=%s object=%s", write.what, write.about.key)
            elif write.then is None:
                log_failure(write.what, write.about, error)

    def _end(self, write: Write) -> None:
        uid = write.about.metadata.uid
        del self._running[write]
        if isinstance(write.error, RetryLaterError):
            if not self._is_closed:
                heappush(self._later, (self._clock() + write.error.seconds, uid))
                self._changed.notify()
            write.error = None
            return
        writes = self._of_object[uid]
        writes.popleft()
        self._size -= 1
        if not writes:
            del self._of_object[uid]
        elif not self._is_closed:
            self._ready.append(uid)
        seconds = self._clock() - write.began
        self.durations.labels(write.what, "error" if write.error else "success").observe(seconds)
        if write.then is not None:
            self._ended.append(write)
            self._on_end()
        if not self._of_object:
            self._all_ended.notify_all()


MAX_QUEUED = 10_000
"""Events that wait to be written at most; later ones are dropped, and counted."""
SERIES = 360.0
"""Seconds after which an equal event begins a new object, not a series."""
MAX_KNOWN = 4096
"""Events that are remembered for series at most."""
LAST_EVENTS = 5.0
"""Seconds that events have at the end."""
EVENT_THREADS = 2
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
    """A recorder whose events (events.k8s.io/v1) are written by threads. Thread-safe.

    Equal events of one object become a series (client-go v0.36, tools/events/event_broadcaster.go).

    Parameters
    ----------
    scheduler_name : str
        Reports events about objects other than pods.
    now : callable
        Returns seconds since 1970.
    durations : Histogram, optional
        See `Writer`.

    Attributes
    ----------
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
            EVENT_THREADS,
            throttled=connection.throttled,
            clock=lambda: connection.clock(),
            durations=durations,
        )

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        self.event_of_each([regarding], type, reason, action, note)

    def event_of_each(
        self, regarding: Sequence[Object], type: str, reason: str, action: str, note: str
    ) -> None:
        for obj in regarding:
            event = Event(obj, type, reason, action, truncated(note))
            if len(self.writer) < MAX_QUEUED:
                self.writer.submit("event", obj, partial(self._try, _EventWrite(event)))
            else:
                self.dropped += 1

    def close(self) -> None:
        """Write what waits for some seconds, and no more."""
        self.writer.finish(LAST_EVENTS)

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
