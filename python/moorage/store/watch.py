"""Watches: cursors into the history of one kind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from msgspec.structs import replace

from moorage.kube import Object
from moorage.saved_fields import SavedFields

from .errors import ResourceExpiredError
from .protocol import Replacement, WatchEvent
from .tables import ObjectTable

if TYPE_CHECKING:
    from .selectors import Predicate

T = TypeVar("T", bound=Object)


def with_version(obj: T, version: str) -> T:
    """Return a copy of an object with another resource version."""
    return replace(obj, metadata=replace(obj.metadata, resource_version=version))


class Changed(Condition):
    """The condition of a store's lock. While no thread waits, a notification costs next to nothing.

    Attributes
    ----------
    lock : lock
        The same. Holding it is faster than holding the condition, whose methods are Python's.
    """

    def __init__(self, lock: Any) -> None:
        super().__init__(lock)
        self.lock = lock
        self._waiting = 0  # threads in `wait`, counted under the lock

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until a notification; see `threading.Condition.wait`.

        Parameters
        ----------
        timeout : float, optional
            In seconds.

        Returns
        -------
        bool
            False when the time is over.
        """
        self._waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self._waiting -= 1

    def notify_all(self) -> None:
        """Wake the threads that wait. To be called with the lock."""
        if self._waiting:
            super().notify_all()


class Watch(SavedFields, Generic[T]):
    """The events of one kind after a resource version, as the API server's watch cache sends them.

    With a selector, an object that begins to match it is ADDED, and one that ceases to match it is DELETED
    (in its last matching state).

    Parameters
    ----------
    changed : Changed
        Of the store's lock; notified after each write.
    table : Table
        The kind's objects and history.
    match : callable or None
        The selector; None for all objects.
    version : str
        The resource version after which the events begin.
    initial : callable or None
        Returns the objects to begin with, and their resource version, where the watch begins with objects.

    Raises
    ------
    ResourceExpiredError
        The history does not reach back to `version`.
    """

    fields = ("_position", "_version", "_initial", "_closed", "_pending")

    def __init__(
        self,
        changed: Changed,
        table: ObjectTable[T],
        match: Predicate[T] | None,
        version: str,
        initial: Callable[[], tuple[list[T], str]] | None,
    ) -> None:
        self._lock = self._changed = changed
        self._table = table
        self._match = match
        self._version = version
        self._initial = initial
        self._position = table.end if initial else table.position(int(version))
        self._pending: deque[WatchEvent[T]] = deque()
        self._closed = False
        table.watches.add(self)

    def poll(self) -> list[WatchEvent[T]]:
        """Return the available events, without waiting.

        Raises
        ------
        ResourceExpiredError
            The history does not have the next event any more.
        """
        with self._changed.lock:
            if self._closed:
                return []
            if self._initial is not None:
                objects, self._version = self._initial()
                self._initial, self._position = None, self._table.end
                self._pending += [WatchEvent("ADDED", obj, obj.metadata.resource_version) for obj in objects]
            events = self._table.since(self._position, self._version)
            if events:
                self._position += len(events)
                self._version = events[-1].resource_version
                if self._match is not None:
                    events = list(filter(None, map(self._selected, events)))
            if self._pending:
                events = [*self._pending, *events]
                self._pending.clear()
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
        with self._changed:
            return self._changed.wait_for(self._is_ready, timeout)

    def close(self) -> None:
        """End the stream; threads in `wait` return. Events that were not read are lost."""
        with self._changed:
            self._closed = True
            self._table.watches.discard(self)
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def is_at(self, saved: object) -> bool:
        """Whether the watch is where it was."""
        (position, version, initial, closed, pending), _ = cast(Any, saved)
        with self._changed.lock:
            return (
                self._position == position
                and self._version == version
                and self._initial is initial
                and self._closed == closed
                and not pending
                and not self._pending
            )

    def _restored(self) -> None:
        """Hear of what is written again."""
        if not self._closed:
            self._table.watches.add(self)

    def rewind(self, position: int, undone: list[WatchEvent[T]], version: str) -> None:
        """Follow a table that has undone events: each delivered event is followed by its reverse.

        Parameters
        ----------
        position : int
            Position of the first undone event.
        undone : list of WatchEvent
            The undone events.
        version : str
            Resource version to which the store has returned.
        """
        if self._initial is not None or self._position <= position:
            return
        delivered = reversed(undone[: self._position - position])
        reverses = filter(None, [self._selected(_reverse(event, version)) for event in delivered])
        pending = deque([*self._pending, *reverses])
        self._pending, self._position, self._version = pending, position, version  # at once

    def _is_ready(self) -> bool:
        """Whether `poll` has events, or the watch is closed."""
        return (
            self._closed
            or self._initial is not None
            or bool(self._pending)
            or self._position < self._table.end
        )

    def _selected(self, event: WatchEvent[T]) -> WatchEvent[T] | None:
        """Return the event for a client that sees only matching objects; None where the client sees no
        change."""
        match = self._match
        if match is None:
            return event
        before, version = event.old, event.resource_version
        was = before is not None and match(before)
        if event.type != "DELETED" and match(event.object):
            return WatchEvent("MODIFIED" if was else "ADDED", event.object, version, before if was else None)
        if before is None or not was:
            return None
        return WatchEvent("DELETED", with_version(before, version), version, before)


class Followed(Watch[T]):
    """Begins with the objects, as a `Replacement`, and again where the history does not have the next event.

    Parameters
    ----------
    changed, table, match
        See `Watch`.
    version : str
        The reader knows the objects of this resource version already; "" where it knows none.
    lists : callable
        Returns the objects, and their resource version.
    """

    def __init__(
        self,
        changed: Changed,
        table: ObjectTable[T],
        match: Predicate[T] | None,
        version: str,
        lists: Callable[[], tuple[list[T], str]],
    ) -> None:
        try:
            super().__init__(changed, table, match, version, None if version else lists)
        except ResourceExpiredError:
            super().__init__(changed, table, match, version, lists)
        self._lists = lists

    def poll(self) -> list[WatchEvent[T]] | Replacement[T]:  # type: ignore[override]
        """Return the available events, or all objects, without waiting."""
        if self._initial is None:
            try:
                return super().poll()
            except ResourceExpiredError:
                pass
        with self._changed.lock:
            if self._closed:
                return []
            objects, self._version = self._lists()
            self._initial, self._position = None, self._table.end
            self._pending.clear()
            return Replacement(objects)


def _reverse(event: WatchEvent[T], version: str) -> WatchEvent[T]:
    """Return the event that reverses `event`, at the resource version to which the store returns."""
    before = event.old
    if before is None:
        return WatchEvent("DELETED", with_version(event.object, version), version, event.object)
    if event.type == "DELETED":
        return WatchEvent("ADDED", before, version)
    return WatchEvent("MODIFIED", before, version, event.object)
