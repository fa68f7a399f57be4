"""A watch over the network: a thread reads the stream, and connects again when it breaks off."""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

from moorage.objects import Object
from moorage.store.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    ResourceExpiredError,
    ServerError,
    UnauthorizedError,
)
from moorage.store.protocol import WatchEvent

from .connection import Connection, Params, Stream
from .server_errors import error_of
from .wire_format import decode_bookmark, decode_event, decode_object_of, decode_status

logger = logging.getLogger("moorage.serve")

T = TypeVar("T", bound=Object)

INITIAL_BACKOFF, MAX_BACKOFF, RESET = 0.8, 30.0, 120.0
"""Seconds before the first reconnect, at most, and of a stream after which backing off begins anew (client-go
v0.36, tools/cache/reflector.go)."""
MIN_TIMEOUT, MAX_TIMEOUT = 20, 30
"""Seconds after which the server is asked to end a stream, between these at random. It sends a bookmark
before, so the next stream goes on there. client-go's 300 to 600 need HTTP/2, whose pings find out that a
connection is dead; here a stream that is silent for longer is."""
SHORT = 1.0
"""Seconds up to which a stream without events counts as failed."""
_TYPES: Any = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Arrivals:
    """Counts what the watches of a client have received, so that a thread can wait for all of them.

    Attributes
    ----------
    condition : threading.Condition
        Of its lock, under which watches keep their events.
    count : int
    """

    def __init__(self) -> None:
        self.condition = Condition()
        self.count = 0

    def note(self) -> None:
        """Count one arrival, and wake the threads that wait. To be called with the lock."""
        self.count += 1
        self.condition.notify_all()

    def wake(self) -> None:
        """Wake the threads that wait."""
        with self.condition:
            self.note()

    def wait(self, seen: int, timeout: float | None) -> int:
        """Wait for an arrival.

        Parameters
        ----------
        seen : int
            The count that the caller knows.
        timeout : float or None
            In seconds; None for ever.

        Returns
        -------
        int
            The count.
        """
        with self.condition:
            self.condition.wait_for(lambda: self.count != seen, timeout)
            return self.count


class Backoff:
    """Times between attempts to connect: doubled from one to the next, with as much again at random.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    jitter : callable, optional
        Returns a number from 0 to 1.
    """

    def __init__(self, clock: Callable[[], float], jitter: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._jitter = jitter
        self._next = INITIAL_BACKOFF
        self._began = clock()

    def begin(self) -> None:
        """Note that an attempt begins."""
        self._began = self._clock()

    def elapsed(self) -> float:
        """Return the seconds since the attempt began."""
        return self._clock() - self._began

    def next(self) -> float:
        """Return the seconds to wait after an attempt that has failed, or whose stream has ended."""
        if self.elapsed() >= RESET:
            self._next = INITIAL_BACKOFF
        seconds, self._next = self._next, min(2 * self._next, MAX_BACKOFF)
        return min(seconds * (1.0 + self._jitter()), MAX_BACKOFF)


class NoWatch:
    """The watch of a kind that the server does not serve."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals, self._closed = arrivals, False

    def poll(self) -> list[Any]:
        """Return no events."""
        return []

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the watch is closed; see `Watcher.wait`."""
        with self._arrivals.condition:
            return self._arrivals.condition.wait_for(lambda: self._closed, timeout)

    def close(self) -> None:
        """End the watch."""
        with self._arrivals.condition:
            self._closed = True
            self._arrivals.note()


class ApiWatch(Generic[T]):
    """The events of one kind after a resource version. It reconnects by itself.

    After a failure it waits (see `Backoff`); a stream that the server ends in time is opened again at once.
    Bookmarks move the resource version forward, so that the server's history reaches back to it.

    Parameters
    ----------
    struct : type
        The kind.
    path : str
        Of the collection.
    params : mapping of str to str
        Selectors.
    version : str
        The events begin after it; with "" with the objects that exist, as ADDED.
    arrivals : Arrivals
        Of the client.
    converts : bool, optional
        See `decode_object_of`.

    Attributes
    ----------
    version : str
        The resource version of the last event or bookmark.
    reconnects : int
        The number of streams after the first.
    kind : str
    heard : float
        When, by the connection's clock, the server last sent anything.
    """

    def __init__(  # noqa: PLR0913
        self,
        connection: Connection,
        struct: type[T],
        path: str,
        params: Params,
        version: str,
        arrivals: Arrivals,
        converts: bool = False,
    ) -> None:
        self._connection, self._struct, self._converts = connection, struct, converts
        self._path, self._params = path, params
        self._arrivals = arrivals
        self._events: deque[WatchEvent[T]] = deque()
        self._error: ApiError | None = None
        self._stream: Stream | None = None
        self._closed = False
        self.version = version
        self.reconnects = 0
        self.kind = struct.__name__
        self.heard = connection.clock()
        self._thread = Thread(target=self._work, name=f"watch {self.kind}", daemon=True)
        self._thread.start()

    def poll(self) -> list[WatchEvent[T]]:
        """Return the available events, without waiting.

        Raises
        ------
        ResourceExpiredError
            The server does not have the next event any more.
        ApiError
            The user may not watch.
        """
        if not self._events and self._error is None:
            return []
        with self._arrivals.condition:
            if self._closed:
                return []
            if self._error is not None and not self._events:
                raise self._error
            events = list(self._events)
            self._events.clear()
            return events

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until `poll` may have events or the watch is closed.

        Parameters
        ----------
        timeout : float, optional
            In seconds; without one it waits forever.

        Returns
        -------
        bool
            False when the time is over.
        """
        with self._arrivals.condition:
            return self._arrivals.condition.wait_for(self._is_ready, timeout)

    def close(self) -> None:
        """End the stream; threads in `wait` return. Events that were not read are lost."""
        with self._arrivals.condition:
            self._closed = True
            self._arrivals.note()
            stream = self._stream
        if stream is not None:
            stream.interrupt()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended, after `close`.

        Parameters
        ----------
        timeout : float, optional
            In seconds.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    @property
    def is_closed(self) -> bool:
        """Whether the watch was closed, or has told its reader of an error, which ends it."""
        return self._closed or self._error is not None

    def _is_ready(self) -> bool:
        return self._closed or bool(self._events) or self._error is not None

    # ---- in the thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Read streams until the watch is closed, or the server refuses to go on."""
        backoff = Backoff(self._connection.clock)
        while not self._closed:
            backoff.begin()
            try:
                is_short = not self._read() and backoff.elapsed() < SHORT
                seconds = backoff.next() if is_short else 0.0
            except ResourceExpiredError as error:
                self._fail(error)
                return
            except ApiError as error:
                if _is_final(error):
                    self._fail(error)
                    return
                seconds = backoff.next()
                if not self._closed:
                    logger.info("watch has failed: kind=%s error=%s seconds=%.1f", self.kind, error, seconds)
            except Exception as error:  # a defect; the reader lists again
                logger.exception("watch has ended: kind=%s", self.kind)
                self._fail(ServerError(f"the watch has failed: {error!r}"))
                return
            if seconds and not self._closed:
                self._connection.sleep(seconds)
            self.reconnects += 1

    def _read(self) -> bool:
        """Read one stream to its end; return whether it had events."""
        seconds = random.randint(MIN_TIMEOUT, MAX_TIMEOUT)
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        if self.version:
            params["resourceVersion"] = self.version
        has_events = False
        with self._connection.stream(self._path, params) as stream:
            with self._arrivals.condition:  # `close` interrupts the stream, or is seen here
                self._stream = stream
                is_closed = self._closed
            self.heard = self._connection.clock()
            try:
                for line in () if is_closed else stream:
                    if self._closed:
                        break
                    self._take(line)
                    has_events = True
            finally:
                self._stream = None
        return has_events

    def _take(self, line: bytes) -> None:
        """Take one event."""
        self.heard = self._connection.clock()
        event = decode_event(line)
        if event.type == "BOOKMARK":
            self.version = decode_bookmark(event)[0] or self.version
            return
        if event.type == "ERROR":
            raise error_of(decode_status(event))
        if event.type not in _TYPES:
            return
        obj = decode_object_of(self._struct, event.object, converts=self._converts)
        version = obj.metadata.resource_version
        kind: Any = event.type
        with self._arrivals.condition:
            self._events.append(WatchEvent(kind, obj, version))
            self.version = version
            self._arrivals.note()

    def _fail(self, error: ApiError) -> None:
        with self._arrivals.condition:
            self._error = error
            self._arrivals.note()


def _is_final(error: ApiError) -> bool:
    """Whether another attempt would end in the same way, unless someone intervenes."""
    return isinstance(error, BadRequestError | ForbiddenError | NotFoundError | UnauthorizedError)
