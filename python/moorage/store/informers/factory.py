"""InformerFactory: the informers of a program, one for each kind."""

from __future__ import annotations

from collections.abc import Collection
from threading import Event, Thread
from typing import Any, TypeVar, cast

from fastrlock.rlock import FastRLock

from moorage.kube import Object

from ..kinds import struct_named
from ..protocol import ObjectClient
from ..store import ObjectStore
from ..tables import FIRST_VERSION
from .informer import Informer
from .lister import Lister

T = TypeVar("T", bound=Object)
Saved = tuple[dict[type[Object], tuple[Informer[Any], object]], int | None, dict[type[Object], None]]
"""A state of all informers, the value of ObjectStore.changes at the last run, and the kinds given since."""


class InformerFactory:
    """One informer for each kind, over one client.

    Parameters
    ----------
    client : ObjectClient
        Where to follow the objects.
    lock : re-entrant lock, optional
        Of all informers over an ObjectStore, for an owner that holds it while it saves and restores them. A
        server may keep an informer waiting: over another client each informer has a lock of its own.
    """

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
                kinds = {**dict.fromkeys(store.changed_since(self._changes)), **self._given}
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
            for informer in [one for kind, one in self._informers.items() if kind in kinds]:
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
