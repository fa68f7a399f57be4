"""InformerFactory: the informers of a program, one for each kind."""

from __future__ import annotations

from collections.abc import Callable, Container
from threading import Event, Thread
from typing import Any, TypeVar, cast

from moorage.objects.model.meta import Object
from moorage.store.clock import epoch
from moorage.store.kinds import struct_named
from moorage.store.protocol import ObjectClient
from moorage.store.store import ObjectStore

from .informer import Informer
from .lister import Lister

T = TypeVar("T", bound=Object)


class InformerFactory:
    """One informer for each kind, over one client.

    Parameters
    ----------
    client : ObjectClient
        Where to list and watch.
    resync_period : float
        As for `Informer`.
    clock : callable
        As for `Informer`.
    """

    def __init__(
        self, client: ObjectClient, *, resync_period: float = 0.0, clock: Callable[[], float] = epoch
    ) -> None:
        self._client = client
        self._resync_period = resync_period
        self._clock = clock
        self._informers: dict[type[Object], Informer[Any]] = {}
        self._changes: int | None = None  # of an ObjectStore, all of which the informers have taken in

    def informer(self, kind: type[T] | str, *, field_selector: str | None = None) -> Informer[T]:
        """Return the informer of a kind, made when it is first asked for, with the selector given then.

        Raises
        ------
        ValueError
            It was made with another selector.
        """
        self._changes = None  # who has an informer may do anything with it
        struct: type[T] = struct_named(kind) if isinstance(kind, str) else kind
        if struct not in self._informers:
            self._informers[struct] = Informer(
                self._client,
                struct,
                field_selector=field_selector or "",
                resync_period=self._resync_period,
                clock=self._clock,
            )
        informer: Informer[T] = self._informers[struct]
        if field_selector is not None and informer.field_selector != field_selector:
            held = informer.field_selector
            raise ValueError(f"the informer of {struct.__name__} has the field selector {held!r}")
        return informer

    def lister(self, kind: type[T] | str) -> Lister[T]:
        """Return the lister of a kind's informer, which is made where there is none."""
        informer = self._informers.get(kind) if isinstance(kind, type) else None
        return self.informer(kind).lister if informer is None else informer.lister

    def has_synced(self) -> bool:
        """Whether every informer has synced."""
        return all(informer.has_synced() for informer in self._informers.values())

    def run_once(self) -> int:
        """`Informer.run_once` for each informer, in the order in which they were made; returns the sum.

        Over an ObjectStore only the informers of kinds are asked that have changed since the last time.
        """
        changes: int | None = None
        kinds: Container[type[Object]] = self._informers
        if isinstance(self._client, ObjectStore) and not self._resync_period:
            changes = self._client.changes
            if changes == self._changes:
                return 0
            if self._changes is not None:
                kinds = self._client.changed_since(self._changes)
        informers = [one for kind, one in self._informers.items() if kind in kinds]
        there, events, self._changes = len(self._informers), 0, None
        for informer in informers:
            events += informer.run_once()
        if there == len(self._informers):
            self._changes = changes
        return events

    def save(self) -> object:
        """What the informers know, for `undo`. The client is an ObjectStore."""
        return [(informer, informer.save()) for informer in self._informers.values()]

    def undo(self, saved: object) -> None:
        """Have the informers know what they knew at `save`; those that were made since begin anew."""
        there = cast("list[tuple[Informer[Any], object]]", saved)
        for informer, known in there:
            informer.undo(known)
        kept = {id(informer) for informer, _ in there}
        self._informers = {kind: one for kind, one in self._informers.items() if id(one) in kept}
        self._changes = None

    def run(self, stop: Event) -> list[Thread]:
        """`Informer.run` for each informer."""
        return [informer.run(stop) for informer in self._informers.values()]
