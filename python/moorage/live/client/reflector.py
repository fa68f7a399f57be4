"""Reflectors: each follows the objects of one kind in a thread of its own."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Any, Generic, TypeVar

from moorage.kube import Object
from moorage.store.errors import (
    ApiError,
    NotFoundError,
    ResourceExpiredError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from moorage.store.protocol import Replacement, WatchEvent

from .collection import Bookmark, Collection
from .connection import Connection

logger = logging.getLogger("moorage.serve")

T = TypeVar("T", bound=Object)

INITIAL_BACKOFF, MAX_BACKOFF, RESET = 0.8, 30.0, 120.0
"""Seconds of the first pause, of the longest, and without a pause after which backing off begins anew
(client-go v0.36, tools/cache/reflector.go)."""
MIN_TIMEOUT, MAX_TIMEOUT = 20, 30
"""Seconds after which the server is asked to end a stream, between these at random. It sends a bookmark
before, so the next stream goes on there. client-go's 300 to 600 need HTTP/2, whose pings find out that a
connection is dead; here a stream that is silent for longer is."""
SHORT = 1.0
"""Seconds up to which a stream that has ended counts as failed."""


class ReceivedCounts:
    """Counts what the reflectors of a client have received, so that a thread can wait for all of them.

    Attributes
    ----------
    condition : threading.Condition
        Of its lock, under which reflectors keep their news.
    reflectors : tuple of Reflector
        Those that are not closed.
    """

    def __init__(self) -> None:
        self.condition = Condition()
        self.count = 0
        self.reflectors: tuple[Reflector[Any], ...] = ()

    def note(self) -> None:
        """Count one arrival, and wake the threads that wait. To be called with the lock."""
        self.count += 1
        self.condition.notify_all()

    def wake(self) -> None:
        """Wake the threads that wait."""
        with self.condition:
            self.note()

    def wait(self, seen: int, timeout: float | None) -> int:
        """Wait for an arrival; return the count.

        Parameters
        ----------
        seen : int
            The count that the caller knows.
        timeout : float or None
            In seconds; None for ever.
        """
        with self.condition:
            self.condition.wait_for(lambda: self.count != seen, timeout)
            return self.count


class Backoff:
    """Pauses between attempts: doubled from one to the next, with as much again at random.

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
        self._last = clock()
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._next = INITIAL_BACKOFF

    def next(self) -> float:
        """Return the seconds of the next pause."""
        now = self._clock()
        if now - self._last >= RESET:
            self.reset()
        self._last = now
        seconds, self._next = self._next, min(2 * self._next, MAX_BACKOFF)
        return min(seconds * (1.0 + self._jitter()), MAX_BACKOFF)


class Reflector(Generic[T]):
    """Lists the objects of a kind, watches them, and lists them again after an error of the watch.

    Only if the server has not answered, or asks to wait, the watch goes on where it was. Between two attempts
    it waits (`Backoff`); if none of the client's kinds could be read, only until one can be. Bookmarks move
    the resource version forward, so that the server's history reaches back to it. A kind that the server has
    never served has no objects. One that cannot be read any more keeps those that were read.

    Parameters
    ----------
    find : callable
        Asks the server for the kind, and returns its collection; None for a kind that it does not serve.
        It takes what has to be called whenever the server has sent something.
    connection : Connection
        Its clock and its sleep.

    Attributes
    ----------
    is_listed : bool
        Whether the first list is done.
    heard : float
        When, by the connection's clock, the server last sent anything about the kind.
    unreadable_since : float or None
        When, by the connection's clock, the kind began to be unreadable; None while it can be read.
    error : str
        Why; "" while it can be read.
    ends_before : callable or None
        Whether `poll` returns an event only as the first one, for who looks at the state before it.
    """

    def __init__(
        self,
        kind: str,
        find: Callable[[Callable[[], None]], Collection[T] | None],
        connection: Connection,
        arrivals: ReceivedCounts,
    ) -> None:
        self.kind, self._find, self._connection, self._arrivals = kind, find, connection, arrivals
        self.is_listed = self.is_closed = self._was_served = False
        self.heard = connection.clock()
        self.error = ""
        self.unreadable_since: float | None = None
        self._opened_at: float | None = None  # of the stream that is read, or has just ended
        self._has_sent_wrong = False  # whether an open stream is no proof that the kind can be read
        self._news: list[Replacement[T] | list[WatchEvent[T]]] = []
        self._refusal: ApiError | None = None  # of the first list, for `poll`
        self._collection: Collection[T] | None = None
        self._version = ""
        self._backoff = Backoff(connection.clock)
        self.ends_before: Callable[[WatchEvent[T]], bool] | None = None
        self._call = Event()  # ends a pause
        with arrivals.condition:
            arrivals.reflectors = (*arrivals.reflectors, self)
        self._thread = Thread(target=self._work, name=f"reflector {kind}", daemon=True)
        self._thread.start()

    def poll(self) -> list[WatchEvent[T]] | Replacement[T]:
        """Return the available events, or all objects, without waiting; see `Watcher`."""
        if not self._news and self._refusal is None:
            return []
        with self._arrivals.condition:
            if self._refusal is not None:
                error, self._refusal = self._refusal, None
                raise error
            if not self._news:
                return []
            news, ends = self._news[0], self.ends_before
            if ends is None or isinstance(news, Replacement):
                return self._news.pop(0)
            at = next((at for at, event in enumerate(news) if at and ends(event)), len(news))
            self._news[:1] = [news[at:]] if at < len(news) else []
            return news[:at]

    def peek(self) -> WatchEvent[T] | None:
        """Return the event that `poll` would return first; None if it has none, or has all objects."""
        with self._arrivals.condition:
            news = self._news[0] if self._news else []
            return None if isinstance(news, Replacement) or not news else news[0]

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until `poll` may have news or the reflector is closed; see `Watcher`."""
        with self._arrivals.condition:
            return self._arrivals.condition.wait_for(
                lambda: self.is_closed or bool(self._news) or self._refusal is not None, timeout
            )

    def close(self) -> None:
        """End the thread. News that were not read are lost."""
        arrivals = self._arrivals
        with arrivals.condition:
            self.is_closed, self._refusal = True, None
            self._news.clear()
            arrivals.reflectors = tuple(other for other in arrivals.reflectors if other is not self)
            arrivals.note()
        self._call.set()
        if (collection := self._collection) is not None:
            collection.interrupt()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended, after `close`; return whether it has.

        Parameters
        ----------
        timeout : float, optional
            In seconds.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- in the thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self.is_closed:
            try:
                self._list_and_watch()
            except ResourceExpiredError:
                pass  # no fault: the objects are listed again
            except ApiError as error:
                self._has_failed(error)
            except Exception as error:
                logger.exception("a defect in reading: kind=%s", self.kind)
                self._has_failed(ServerError(f"{self.kind} cannot be read: {error!r}"))
            self._pause()

    def _list_and_watch(self) -> None:
        """List, and watch from there until the objects have to be listed again."""
        self._collection = collection = self._find(self._hear)
        if collection is None:
            if self._was_served:
                raise NotFoundError("the server does not serve the kind any more")
            self._hear()
            self._replace([])
            self._can_be_read()
            return
        if self.is_closed:  # before there was something to interrupt
            return
        objects, self._version = collection.list()
        self._was_served = True
        self._replace(objects)
        while not self.is_closed:
            error: ApiError | None = None
            try:
                self._watch(collection)
            except (UnreachableError, TooManyRequestsError) as failure:
                error = failure
            if self._opened_at is not None and self._connection.clock() - self._opened_at >= SHORT:
                self._can_be_read()
                self._opened_at = None
            elif error is None:  # the server may not know the version
                raise ServerError("the stream ended at once")
            else:
                self._has_failed(error)
                self._pause()

    def _watch(self, collection: Collection[T]) -> None:
        """Read one stream to its end."""
        with collection.watch(self._version, random.randint(MIN_TIMEOUT, MAX_TIMEOUT)) as events:
            self._opened_at = self._connection.clock()
            if not self._has_sent_wrong:
                self._can_be_read()
            for event in events:
                if isinstance(event, Bookmark):
                    self._version = event.version
                else:
                    self._version = event.resource_version
                    self._add(event)
                self._can_be_read()

    def _hear(self) -> None:
        self.heard = self._connection.clock()

    def _replace(self, objects: list[T]) -> None:
        with self._arrivals.condition:
            whole = Replacement(objects)
            whole.resource_version = self._version
            self._news = [] if self.is_closed else [whole]
            self._refusal, self.is_listed = None, True
            self._arrivals.note()

    def _add(self, event: WatchEvent[T]) -> None:
        with self._arrivals.condition:
            if self.is_closed:
                return
            if not self._news or isinstance(self._news[-1], Replacement):
                self._news.append([event])
            else:
                self._news[-1].append(event)
            self._arrivals.note()

    def _has_failed(self, error: ApiError) -> None:
        """Note that the kind cannot be read."""
        if self.is_closed:
            return
        if not isinstance(error, UnreachableError):
            self._hear()
        self._has_sent_wrong = self._opened_at is not None
        self.error = str(error)
        if self.unreadable_since is None:
            self.unreadable_since = self._connection.clock()
            logger.warning("kind cannot be read: kind=%s error=%s", self.kind, error)
        with self._arrivals.condition:
            if not self.is_listed:
                self._refusal = error
            self._arrivals.note()  # who waits for news looks at what can be read, too

    def _can_be_read(self) -> None:
        """Note that the kind can be read. If it is the first one after all could not be, the server was away:
        then the others do not pause any longer."""
        self._has_sent_wrong = False
        if self.unreadable_since is not None:
            reflectors = self._arrivals.reflectors
            if all(other.unreadable_since is not None or other._collection is None for other in reflectors):
                for other in reflectors:
                    if other is not self:
                        other._call.set()
            seconds = self._connection.clock() - self.unreadable_since
            self.unreadable_since, self.error = None, ""
            logger.info("kind can be read again: kind=%s seconds=%.1f", self.kind, seconds)
            self._arrivals.wake()  # as a failure does

    def _pause(self) -> None:
        self._opened_at = None
        if not self.is_closed and self._connection.wait(self._call, self._backoff.next()):
            self._backoff.reset()
            if not self.is_closed:  # all are called at once, and go on one after the other
                self._connection.sleep(self._backoff.next())
        self._call.clear()  # a call during an attempt that fails ends the pause after it
