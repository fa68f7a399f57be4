"""Informers: a local copy of one kind, updated by list and watch, with event handlers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec
from fastrlock.rlock import FastRLock

from moorage._core.base.watch_events import Notice
from moorage.kube import Object
from moorage.lazy import lazy_attribute
from moorage.short_repr import ShortRepr

from .errors import ApiError, struct_named
from .indexer import Indexer, IndexFunction, Lister
from .protocol import ObjectClient, Replacement, Selector, Watcher
from .store import ObjectStore
from .tables import FIRST_VERSION
from .watch import Watch

logger = logging.getLogger("moorage.store")

RETRY = 1.0
"""Seconds that a thread of an informer waits after an error."""
T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


class DeletedFinalStateUnknown(msgspec.Struct, Generic[T], frozen=True):
    """Stands for an object whose deletion was not observed (client-go's tombstone).

    Attributes
    ----------
    key : str
        ``namespace/name``, or the name where the kind has no namespaces.
    obj : Object
        The last known state.
    """

    key: str
    obj: T


class ResourceEventHandler(Protocol[T_contra]):
    """Receives the changes of an informer's objects, in order for each object."""

    def on_add(self, obj: T_contra, is_in_initial_list: bool) -> None:
        """Receive an object that was added.

        Parameters
        ----------
        is_in_initial_list : bool
            The object existed when the handler was registered.
        """

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Receive the states before and after a change."""

    def on_delete(self, obj: T_contra | DeletedFinalStateUnknown[T_contra]) -> None:
        """Receive a deletion.

        Parameters
        ----------
        obj : Object or DeletedFinalStateUnknown
            The last state of the object, or its tombstone where the deletion was not observed.
        """


class RunHandler(Protocol[T_contra]):
    """A handler that can receive several notices in one call. The first of them is no deletion.

    One that may receive none of them also has the method of `ResourceEventHandler` for the first one.
    """

    def on_run(self, notices: Iterable[Notice[T_contra]]) -> int:
        """Receive the first notices.

        Returns
        -------
        int
            How many notices were received, which may be 0. If the method raises, none counts as received.
        """

    def on_delete(self, obj: T_contra | DeletedFinalStateUnknown[T_contra]) -> None:
        """See `ResourceEventHandler.on_delete`."""


class Registration(Generic[T]):
    """A handler of an informer, and its pending notices.

    Attributes
    ----------
    pending : deque of Notice
        The notices that the handler has not received yet.
    is_synced : bool
        Whether the handler has received every object of the initial list.
    """

    def __init__(self, handler: ResourceEventHandler[T] | RunHandler[T]) -> None:
        self.handler = cast("ResourceEventHandler[T]", handler)
        self._on_run = getattr(handler, "on_run", None)
        self.pending: deque[Notice[T]] = deque()
        self.is_synced = False

    def has_synced(self) -> bool:
        """Return `is_synced`."""
        return self.is_synced

    def deliver(self) -> None:
        """Pass the pending notices to the handler, in order.

        If the handler raises an Exception, the notice that it received is dropped and the rest stays pending.
        With any other exception (such as KeyboardInterrupt), that notice stays pending, too.
        """
        pending, handler, on_run = self.pending, self.handler, self._on_run
        while pending:
            if on_run is not None and not pending[0].is_deletion:
                received = on_run(pending)
                for _ in range(received):
                    pending.popleft()
                if received:
                    continue
            notice = pending[0]
            old, new = notice.old, notice.new
            try:
                pending.popleft()
                if new is None:
                    handler.on_delete(old)
                elif old is None:
                    handler.on_add(new, notice.is_initial)
                else:
                    handler.on_update(old, new)
            except Exception:
                raise
            except BaseException:
                if not (pending and pending[0] is notice):
                    pending.appendleft(notice)
                raise
        self.is_synced = True


class Informer(ShortRepr, Generic[T]):
    """A local copy of one kind, like client-go's SharedIndexInformer.

    If events may have been missed, it receives all objects, and its handlers the difference. It updates the
    copy first, then notifies the handlers one by one.

    Parameters
    ----------
    client : ObjectClient
        Where to follow the objects.
    kind : type or str
        The struct of a kind, or its name.
    namespace, label_selector, field_selector : optional
        The part of the objects to watch; all by default. See `ObjectStore.list`.
    indexers : mapping of str to callable, optional
        See `Indexer`.
    lock : re-entrant lock, optional
        Held while events are applied and handlers called; one of its own by default.

    Attributes
    ----------
    indexer : Indexer
        The copy.
    resource_version : str
        Of the last event of an API server in the copy, or of the last list; "" where nobody tells.
    """

    shows = "{0._struct.__name__}, {0.indexer}"

    def __init__(  # noqa: PLR0913
        self,
        client: ObjectClient,
        kind: type[T] | str,
        *,
        namespace: str = "",
        label_selector: Selector = "",
        field_selector: str = "",
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        lock: FastRLock | None = None,
    ) -> None:
        self._client = client
        self._struct: type[T] = struct_named(kind) if isinstance(kind, str) else kind
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._watch: Watcher[T] | None = None
        self._registrations: tuple[Registration[T], ...] = ()
        self._synced = False
        self.resource_version = ""
        self._begin = ""  # resource version at which a watch that is not made yet begins
        self._notices: list[Notice[T]] = []  # changes of the copy that no handler has received
        self._saved: Any = None  # the result of `save`, while nothing has changed since
        self._lock = lock or FastRLock()
        self.indexer: Indexer[T] = Indexer(indexers or {})

    @lazy_attribute
    def lister(self) -> Lister[T]:
        """The reader of the copy."""
        return Lister(self._struct, self.indexer)

    def has_synced(self) -> bool:
        """Whether the copy has been filled once."""
        return self._synced

    def add_event_handler(self, handler: ResourceEventHandler[T] | RunHandler[T]) -> Registration[T]:
        """Register a handler.

        If the informer has synced, the handler receives the present objects before this method returns.

        Returns
        -------
        Registration
            For `remove_event_handler`.
        """
        registration = Registration(handler)
        with self._lock:
            self._saved = None
            self._registrations = (*self._registrations, registration)
            if self._synced:
                registration.pending.extend([Notice(None, obj, True) for obj in self.indexer.values()])
                registration.deliver()
        return registration

    def remove_event_handler(self, registration: Registration[T]) -> None:
        """Stop notifying a handler; its pending notices are dropped."""
        with self._lock:
            self._saved = None
            self._registrations = tuple(r for r in self._registrations if r is not registration)
            registration.pending.clear()

    def begin_empty(self, version: str) -> None:
        """Begin with an empty copy, as `run_once` does for an ObjectStore without objects, but make the watch
        in the next run: most kinds never have an object.

        Parameters
        ----------
        version : str
            The resource version of the store.
        """
        with self._lock:
            if not self._synced:
                self._begin, self._synced = version, True
                for registration in self._registrations:
                    registration.is_synced = True

    def begin(self) -> Watcher[T]:
        """Begin to follow the objects, without waiting for them."""
        with self._lock:
            if self._watch is None:
                follow: Any = self._client.follow
                if self._begin:  # over an ObjectStore
                    follow, self._begin = partial(follow, resource_version=self._begin), ""
                self._watch = follow(
                    self._struct,
                    self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                )
            return self._watch

    def run_once(self) -> int:
        """Apply the news to the copy, then notify the handlers. The first call waits for the objects.

        Events of what a handler writes are left for the next call. If a handler raises, the pending notices
        of all handlers are left for the next call, too.

        Returns
        -------
        int
            The number of notices.

        Raises
        ------
        ApiError
            The objects could not be listed yet.
        """
        with self._lock:
            try:
                watch = self._watch or self.begin()
                if not self._synced:
                    watch.wait()
                news = watch.poll()
                is_empty = not news and not isinstance(news, Replacement)
                if is_empty and (not self._synced or self._is_idle()):
                    return 0
                self._saved = None
                while isinstance(news, Replacement):
                    self._replace(news)
                    self.resource_version = news.resource_version
                    news = watch.poll()
                if news:
                    self.resource_version = news[-1].resource_version
                    self.indexer.apply(news, DeletedFinalStateUnknown, self._notices)
                notices = self._notices
                if notices:
                    for registration in self._registrations:
                        registration.pending.extend(notices)
                    self._notices = []
            except Exception:
                raise
            except BaseException:
                self._drop_watch()
                raise
            for registration in self._registrations:
                if registration.pending:
                    registration.deliver()
                registration.is_synced = True
            self._saved = None  # a handler may have saved what was pending
        return len(notices)

    def _is_idle(self) -> bool:
        """Whether a run without new events changes nothing."""
        if self._watch is None or self._notices:
            return False
        for registration in self._registrations:
            if not registration.is_synced or registration.pending:
                return False
        return True

    def save(self) -> object:
        """Return the copy and the pending notices, for `undo`. The client must be an ObjectStore."""
        with self._lock:
            if self._saved is None or not self._is_at(self._saved):
                watch = cast("Watch[T] | None", self._watch)
                handlers = [
                    (registration, registration.is_synced, registration.pending.copy())
                    for registration in self._registrations
                ]
                rest = self._synced, self._begin, self._notices.copy()
                self._saved = self.indexer.save(), watch, watch and watch.save(), handlers, rest
            return self._saved

    def _is_at(self, saved: Any) -> bool:
        """Whether copy and watch are as they were saved."""
        objects, watch, position, _, _ = saved
        return self.indexer.is_at(objects) and (watch is None or watch.is_at(position))

    def undo(self, saved: object) -> None:
        """Restore the state of `save`, after the store has been restored. No handler is notified.

        Handlers that were added since are removed.
        """
        with self._lock:
            if saved is self._saved and self._is_at(saved):
                return
            self._saved = None  # until all is restored
            objects, watch, position, handlers, rest = cast(Any, saved)
            if self._watch is not watch:
                self._drop_watch()
            self._watch = watch
            if watch is not None:
                watch.undo(position)
            self.indexer.undo(objects)
            self._synced, self._begin, notices = rest
            self._notices = notices.copy()
            self._registrations = tuple(registration for registration, _, _ in handlers)
            for registration, registration.is_synced, pending in handlers:
                registration.pending = pending.copy()
            self._saved = saved

    def copy_from(self, other: Informer[T]) -> None:
        """Take the copy of an informer of an ObjectStore of which this one's store is a clone. No handler is
        notified of what is in it; later events follow from where the other watch is.

        Parameters
        ----------
        other : Informer
            Its handlers have received all notices.
        """
        with other._lock, self._lock:
            self._saved = None
            self.indexer.copy_from(other.indexer)
            self._drop_watch()
            if other._watch is not None:
                self.begin()
                cast("Watch[T]", self._watch).copy_from(cast("Watch[T]", other._watch))
            self._synced, self._begin = other._synced, other._begin
            for registration in self._registrations:
                registration.is_synced = self._synced

    def run(self, stop: Event) -> Thread:
        """Call `run_once` in a thread until an event is set.

        Parameters
        ----------
        stop : threading.Event
            Set it to end the thread.

        Returns
        -------
        threading.Thread
            A daemon: it does not keep the process alive.
        """

        def work() -> None:
            while not stop.is_set():
                try:
                    self.run_once()
                except ApiError as error:
                    logger.warning("%s cannot be listed: %s", self._struct.__name__, error)
                    stop.wait(RETRY)
                except Exception:
                    logger.exception("a handler of %s has failed", self._struct.__name__)
                    continue  # what it was told is dropped, and the rest is pending
                if self._watch is not None:
                    self._watch.wait()

        def end() -> None:
            stop.wait()
            if self._watch is not None:
                self._watch.close()

        name = f"informer {self._struct.__name__}"
        worker = Thread(target=work, name=name, daemon=True)
        worker.start()
        Thread(target=end, name=f"{name} stop", daemon=True).start()
        return worker

    def _drop_watch(self) -> None:
        """Close the watch, so that the next run lists again, after an exception that may have lost events."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _replace(self, objects: list[T]) -> None:
        """Replace the copy and note the difference, deletions first, as client-go v0.36 (RealFIFO) does."""
        old, new = self.indexer.items(), {obj.key: obj for obj in objects}
        for key, obj in old.items():
            if key not in new:
                self._notices.append(Notice(DeletedFinalStateUnknown(key, obj), None))
        for key, obj in new.items():
            was = old.get(key)
            if was is not obj and was != obj:
                self._notices.append(Notice(was, obj, not self._synced))
        if old or new:
            self.indexer.replace(new)
        self._synced = True


# ---- handler functions -------------------------------------------------------------------------------------
#
# HandlerFunctions: an event handler made of functions, as client-go's ResourceEventHandlerFuncs.


def last_state(deleted: T | DeletedFinalStateUnknown[T]) -> T:
    """Return the object of a deletion event, or its last known state."""
    return deleted.obj if isinstance(deleted, DeletedFinalStateUnknown) else deleted


class HandlerFunctions(Generic[T]):
    """Passes the events of an informer to functions.

    Parameters
    ----------
    update : callable
        Takes the states before and after.
    """

    def __init__(
        self,
        add: Callable[[T], object],
        update: Callable[[T, T], object],
        delete: Callable[[T], object],
    ) -> None:
        self._add, self._update, self._delete = add, update, delete

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        """Pass an added object."""
        self._add(obj)

    def on_update(self, old: T, new: T) -> None:
        """Pass a changed object."""
        self._update(old, new)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        """Pass the last state of a deleted object."""
        self._delete(last_state(obj))


# ---- factory -----------------------------------------------------------------------------------------------
#
# InformerFactory: the informers of a program, one for each kind.

Saved = tuple[dict[type[Object], tuple[Informer[Any], object]], int | None, dict[type[Object], None]]
"""A state of all informers, the value of ObjectStore.changes at the last run, and the kinds given since."""


class InformerFactory(ShortRepr):
    """One informer for each kind, over one client.

    Parameters
    ----------
    client : ObjectClient
        Where to follow the objects.
    lock : re-entrant lock, optional
        Of all informers over an ObjectStore, for an owner that holds it while it saves and restores them. A
        server may keep an informer waiting: over another client each informer has a lock of its own.
    """

    shows = "{0._client}"

    def __init__(self, client: ObjectClient, *, lock: FastRLock | None = None) -> None:
        self._client = client
        self._store = client if isinstance(client, ObjectStore) else None
        self._lock = None if self._store is None else lock
        self._informers: dict[type[Object], Informer[Any]] = {}
        self._changes: int | None = None  # value of ObjectStore.changes at the last run
        # Kinds whose informer a caller was given since: it may run the informer or add handlers to it.
        self._given: dict[type[Object], None] = {}

    def informer(self, kind: type[T] | str) -> Informer[T]:
        """Return the informer of all objects of a kind, made on the first call."""
        struct: type[T] = struct_named(kind) if isinstance(kind, str) else kind
        self._given[struct] = None
        if struct not in self._informers:
            self._informers[struct] = Informer(self._client, struct, lock=self._lock)
        return self._informers[struct]

    def lister(self, kind: type[T] | str) -> Lister[T]:
        """Return the lister of a kind's informer, which is made if it does not exist.

        Parameters
        ----------
        kind : type or str
            The struct of a kind, or its name.
        """
        informer = self._informers.get(kind) if isinstance(kind, type) else None
        return self.informer(kind).lister if informer is None else informer.lister

    def has_synced(self) -> bool:
        """Whether every informer has synced."""
        return all(informer.has_synced() for informer in self._informers.values())

    def begin(self) -> None:
        """Begin to follow the objects of all kinds, without waiting for them."""
        for kind in self._given:
            self._informers[kind].begin()

    def run_once(self) -> int:
        """Run every informer once (see `Informer.run_once`), in the order in which they were made.

        Over an ObjectStore, an informer runs only if its kind has changed since the last call, or if a caller
        was given it by `informer`.

        Returns
        -------
        int
            The number of notices.
        """
        changes: int | None = None
        kinds: Collection[type[Object]] = self._informers
        store = self._store
        if store is not None:
            changes = store.changes
            if changes == self._changes and not self._given:
                return 0
            if self._changes is not None:
                kinds = {*store.changed_since(self._changes), *self._given}
            elif store.is_unwritten:
                for informer in self._informers.values():
                    informer.begin_empty(str(FIRST_VERSION))
                self._changes, self._given = changes, {}
                return 0
        else:
            self.begin()
        # Handlers may be given informers; after an exception all run.
        notices, self._changes, self._given = 0, None, {}
        if len(kinds) == 1:
            (kind,) = kinds
            only = self._informers.get(kind)
            notices = 0 if only is None else only.run_once()
        else:
            for informer in [informer_of for kind, informer_of in self._informers.items() if kind in kinds]:
                notices += informer.run_once()
        self._changes = changes
        return notices

    def run_kind(self, kind: type[Object]) -> int:
        """Run the informer of one kind, which exists (see `Informer.run_once`).

        Returns
        -------
        int
            The number of notices.
        """
        return self._informers[kind].run_once()

    def copy_from(self, other: InformerFactory) -> None:
        """Take the copies of the informers of another store; see `Informer.copy_from`."""
        for kind, informer in other._informers.items():
            self.informer(kind).copy_from(informer)

    def save(self) -> object:
        """Return the state of all informers, for `undo`. The client must be an ObjectStore."""
        states = {kind: (informer, informer.save()) for kind, informer in self._informers.items()}
        return states, self._changes, self._given.copy()

    def undo(self, saved: object) -> None:
        """Restore the state of `save`. Informers that were made since are dropped."""
        states, changes, given = cast(Saved, saved)
        for informer, state in states.values():
            informer.undo(state)
        self._informers = {kind: informer for kind, (informer, _) in states.items()}
        self._changes = changes  # the kinds that have been restored have changed since
        self._given = given | self._given

    def run(self, stop: Event) -> list[Thread]:
        """Run every informer in a thread of its own (see `Informer.run`); return the threads.

        Parameters
        ----------
        stop : threading.Event
            Set it to end the threads.
        """
        return [informer.run(stop) for informer in self._informers.values()]
