"""Informers: a local copy of one kind, kept current by list and watch, with handlers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from threading import Event, Thread
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec
from fastrlock.rlock import FastRLock

from moorage.objects.model.meta import Object
from moorage.store.clock import epoch
from moorage.store.errors import ResourceExpiredError
from moorage.store.kinds import struct_named
from moorage.store.protocol import (
    ObjectClient,
    Selector,
    Watcher,
    WatchEvent,
)
from moorage.store.watch import Watch

from .indexer import Indexer, IndexFunction
from .lister import Lister

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


class DeletedFinalStateUnknown(msgspec.Struct, Generic[T], frozen=True):
    """Stands for an object that went while nobody watched; `obj` is the last state that was seen."""

    key: str
    obj: T


class ResourceEventHandler(Protocol[T_contra]):
    """Receives the changes of an informer's objects; those of one object in order."""

    def on_add(self, obj: T_contra, is_in_initial_list: bool) -> None:
        """An object was added, or (the flag) was there when the handler was registered."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """An object changed, or (both the same) is shown again by a resync."""

    def on_delete(self, obj: T_contra | DeletedFinalStateUnknown[T_contra]) -> None:
        """An object was deleted."""


class RunHandler(ResourceEventHandler[T_contra], Protocol[T_contra]):
    """A handler that can take several notices at once, of which the first is no deletion."""

    def on_run(self, notices: Iterable[Notice[T_contra]]) -> int:
        """Take the first notices, as the other methods would one by one; how many, which may be none. If it
        raises, none of them counts as taken."""


Notice: TypeAlias = tuple[Any, T | None, bool]
"""(None, new, whether in the initial list), (old, new, False) or (deleted or its tombstone, None, False)."""


class Registration(Generic[T]):
    """A handler of an informer, and the notices that it has not received yet.

    Attributes
    ----------
    is_synced : bool
        Whether the handler has received every object of the initial list.
    """

    def __init__(self, handler: ResourceEventHandler[T]) -> None:
        self.handler = handler
        self._takes_runs = hasattr(handler, "on_run")
        self.pending: deque[Notice[T]] = deque()
        self.is_synced = False

    def has_synced(self) -> bool:
        """Return `is_synced`."""
        return self.is_synced

    def deliver(self) -> None:
        """Pass the pending notices to the handler, in order.

        If the handler raises, the rest stays pending; where that is no failure of the handler but ends the
        program (KeyboardInterrupt), so does the notice that it was given.
        """
        pending, handler = self.pending, self.handler
        while pending:
            if self._takes_runs and len(pending) > 1 and pending[0][1] is not None:
                for _ in range(cast("RunHandler[T]", handler).on_run(pending)):
                    pending.popleft()
                if not pending:
                    break
            old, new, initial = notice = pending[0]
            try:
                pending.popleft()
                if new is None:
                    handler.on_delete(old)
                elif old is None:
                    handler.on_add(new, initial)
                else:
                    handler.on_update(old, new)
            except Exception:
                raise
            except BaseException:
                if not (pending and pending[0] is notice):
                    pending.appendleft(notice)
                raise
        self.is_synced = True


class Informer(Generic[T]):
    """A local copy of one kind, as client-go's SharedIndexInformer.

    It lists, then watches, and lists again when the server has lost its place in the history; handlers then
    receive the difference. The copy is updated first, then the handlers are notified, one by one.

    Parameters
    ----------
    client : ObjectClient
        Where to list and watch.
    kind : type or str
        The struct of a kind, or its name.
    namespace, label_selector, field_selector : optional
        What part of it; everything by default.
    indexers : mapping, optional
        Index name to the function that gives an object's values; an index by namespace is always there.
    resync_period : float
        How often handlers are shown every object again, in seconds on `clock`; 0 is never.
    clock : callable
        Only looked at for the resync.
    """

    def __init__(
        self,
        client: ObjectClient,
        kind: type[T] | str,
        *,
        namespace: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        resync_period: float = 0.0,
        clock: Callable[[], float] = epoch,
    ) -> None:
        self._client = client
        self._struct: type[T] = struct_named(kind) if isinstance(kind, str) else kind
        self._namespace = namespace
        self._label_selector = label_selector
        self.field_selector = field_selector
        self._resync_period = resync_period
        self._next_resync = 0.0
        self._clock = clock
        self._watch: Watcher[T] | None = None
        self._registrations: tuple[Registration[T], ...] = ()
        self._synced = False
        self._notices: list[Notice[T]] = []  # what the copy has and no handler is to be told yet
        self._lock = FastRLock()
        self.indexer: Indexer[T] = Indexer(indexers or {})

    @cached_property
    def lister(self) -> Lister[T]:
        """Reads the copy."""
        return Lister(self._struct, self.indexer)

    def has_synced(self) -> bool:
        """Whether the copy has been filled once."""
        return self._synced

    def add_event_handler(self, handler: ResourceEventHandler[T]) -> Registration[T]:
        """Tell `handler` of every object and of every change from now on.

        If the informer has synced, the handler receives the objects that are there before this returns.
        """
        registration = Registration(handler)
        with self._lock:
            self._registrations = (*self._registrations, registration)
            if self._synced:
                registration.pending.extend([(None, obj, True) for obj in self.indexer.values()])
                registration.deliver()
        return registration

    def remove_event_handler(self, registration: Registration[T]) -> None:
        """Tell this handler nothing more."""
        with self._lock:
            self._registrations = tuple(r for r in self._registrations if r is not registration)
            registration.pending.clear()

    def run_once(self) -> int:
        """Apply the new events to the copy, then notify the handlers; returns the number of events.

        What handlers themselves write is left for the next time. An exception from a handler comes through;
        what this and the other handlers have not been told yet is left for the next time as well.

        Raises
        ------
        ResourceExpiredError
            The server lost its place between list and watch; the next time begins anew.
        """
        with self._lock:
            try:
                events: list[WatchEvent[T]] = []
                try:
                    events = [] if self._watch is None else self._watch.poll()
                except ResourceExpiredError:
                    self._lose_place()
                if self._watch is None:
                    self._list()
                elif events:
                    self._apply(events)
                if self._resync_period:
                    self._resync()
                notices = self._notices
                if notices:
                    for registration in self._registrations:
                        registration.pending.extend(notices)
                    self._notices = []
            except Exception:
                raise
            except BaseException:
                self._lose_place()
                raise
            for registration in self._registrations:
                if registration.pending:
                    registration.deliver()
                registration.is_synced = True
        return len(notices)

    def save(self) -> object:
        """What it knows, and what handlers have not been told, for `undo`. The client is an ObjectStore."""
        with self._lock:
            watch = cast("Watch[T] | None", self._watch)
            told = [(one, one.is_synced, one.pending.copy()) for one in self._registrations]
            rest = self._synced, self._next_resync, self._notices.copy()
            return self.indexer.save(), watch, watch and watch.save(), told, rest

    def undo(self, saved: object) -> None:
        """Restore the state of `save`, in a store that is back in its state of then; no handler is notified.
        Handlers that were added since are removed."""
        with self._lock:
            objects, watch, read, told, rest = cast(Any, saved)
            if self._watch is not watch:
                self._lose_place()
            self._watch = watch
            if watch is not None:
                watch.undo(read)
            self.indexer.undo(objects)
            self._synced, self._next_resync, notices = rest
            self._notices = notices.copy()
            self._registrations = tuple(one for one, _, _ in told)
            for one, one.is_synced, pending in told:
                one.pending = pending.copy()

    def run(self, stop: Event) -> Thread:
        """Do so in a thread, which is returned, until `stop` is set. It does not keep the process alive."""

        def work() -> None:
            while not stop.is_set():
                with suppress(ResourceExpiredError):
                    self.run_once()
                if self._watch is not None:
                    self._watch.wait(self._patience())

        def end() -> None:
            stop.wait()
            if self._watch is not None:
                self._watch.close()

        name = f"informer {self._struct.__name__}"
        worker = Thread(target=work, name=name, daemon=True)
        worker.start()
        Thread(target=end, name=f"{name} stop", daemon=True).start()
        return worker

    def _patience(self) -> float | None:
        return max(0.0, self._next_resync - self._clock()) if self._resync_period else None

    def _lose_place(self) -> None:
        """The next time begins with a list: events that were read may not have reached the copy."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _list(self) -> None:
        """Fill the copy, and watch from there on."""
        objects, version = self._client.list(
            self._struct,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self.field_selector,
        )
        self._watch = self._client.watch(
            self._struct,
            self._namespace,
            resource_version=version,
            label_selector=self._label_selector,
            field_selector=self.field_selector,
        )
        if objects or self._synced:
            self._replace(objects)
        if not self._synced:
            self._next_resync = self._clock() + self._resync_period if self._resync_period else 0.0
            self._synced = True

    def _apply(self, events: list[WatchEvent[T]]) -> None:
        notices, event = self._notices, None
        with self.indexer.lock:
            put, remove = self.indexer.put, self.indexer.remove
            try:
                for event in events:
                    obj = event.object
                    meta = obj.metadata
                    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                    if event.type == "DELETED":
                        was = remove(key)
                        # An event may have been lost: handlers receive the deletion of what they know.
                        other = was is not None and was.metadata.uid != meta.uid
                        notices.append((DeletedFinalStateUnknown(key, was) if other else obj, None, False))
                    else:
                        notices.append((put(key, obj), obj, False))
            except BaseException:
                if event is not None:
                    self._finish(event)
                raise

    def _finish(self, event: WatchEvent[T]) -> None:
        """Take in an event again that an exception may have broken off."""
        obj = event.object
        if event.type == "DELETED":
            self.indexer.remove(obj.key)
            self._notices.append((obj, None, False))
        else:
            self.indexer.put(obj.key, obj)
            self._notices.append((event.previous, obj, False))

    def _replace(self, objects: list[T]) -> None:
        """The difference to a new list: deletions first, as client-go v0.36 has it (RealFIFO)."""
        old, new = self.indexer.items(), {obj.key: obj for obj in objects} if objects else {}
        for key, obj in old.items():
            if key not in new:
                self._notices.append((DeletedFinalStateUnknown(key, obj), None, False))
        for key, obj in new.items():
            was = old.get(key)
            if was is not obj and was != obj:
                self._notices.append((was, obj, not self._synced))
        self.indexer.replace(new)

    def _resync(self) -> None:
        if self._resync_period and (now := self._clock()) >= self._next_resync:
            self._next_resync = now + self._resync_period
            self._notices += ((obj, obj, False) for obj in self.indexer.values())
