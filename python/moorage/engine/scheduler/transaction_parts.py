"""The state besides the cache that a transaction saves and restores: store, informers, queue and plugins."""

from __future__ import annotations

from typing import Any, cast

from moorage.errors import MoorageError
from moorage.store import ObjectStore

from ..cache.cluster_cache import end_each
from ..devices.extended_resources import ResourceClasses
from ..framework import FrameworkHandle
from ..volume.usage.lost_uses import LostUses
from .controllers import Undoable
from .scheduler_parts import SchedulerParts

FOREIGN = "a transaction cannot take back what is written to {}: only to an ObjectStore of this process"
RUNNING = "a transaction cannot begin while pods are being bound"
NO_COPY = "a scheduler over {} cannot be forked: only one over an ObjectStore of this process"
NO_FORK = "a scheduler cannot be forked while pods are being bound"


class SharedPluginData:
    """The data shared by plugins, as a part of a transaction.

    `undo` drops those made since `save`, and restores the assumed volumes of the others.
    """

    def __init__(self, scheduler: SchedulerParts) -> None:
        self._scheduler = scheduler

    def save(self) -> object:
        """Return the shared data and their state."""
        shared, derived = self._scheduler.handle.made()
        parts = [part for data in shared.values() for part in _parts_of(data)]
        return (shared.copy(), derived.copy()), [(part, part.save()) for part in parts]

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        made, parts = cast(Any, saved)
        for now, before in zip(self._scheduler.handle.made(), made, strict=True):
            now.clear()
            now.update(before)
        end_each(parts, "undo")

    def copy_from(self, other: SharedPluginData) -> None:
        """Take the assumed volumes and lost uses of another scheduler; all other shared data is derived from
        the informers."""
        for make, data in other._scheduler.handle.made()[0].items():
            parts = _copied_of(data)
            if parts:
                mine = self._scheduler.handle.shared(cast(Any, make))
                for part, its in zip(_copied_of(mine), parts, strict=True):
                    part.copy_from(its)


def _copied_of(data: object) -> list[Any]:
    """Return what a copy takes over of shared data: its parts with a state of their own, or all of it."""
    return [data] if isinstance(data, LostUses) else _parts_of(data)


def _parts_of(data: object) -> list[Any]:
    """Return the parts of shared data that follow from events and cannot be derived anew: assume caches, and
    the classes of extended resources."""
    if isinstance(data, ResourceClasses):
        return [data]
    names = ("pv_cache", "pvc_cache", "claim_cache")
    return [part for name in names if (part := getattr(data, name, None)) is not None]


class TransactionParts:
    """The records of a scheduler (store, informers, queue, bindings, plugins) as a participant of
    transactions.

    It is enlisted before the scheduler first writes to any of them in a transaction.
    """

    def __init__(self, scheduler: SchedulerParts) -> None:
        self._scheduler = scheduler
        self._shared = SharedPluginData(scheduler)

    def _parts(self) -> list[Undoable]:
        """Return the parts to save, in the order in which they are restored."""
        scheduler = self._scheduler
        handle: FrameworkHandle = scheduler.handle
        return [
            scheduler.informers,
            scheduler.queue,
            scheduler.pods,
            scheduler.bindings,
            handle.waiting_pods,
            handle.recorder,
            scheduler.volumes,
            self._shared,
            *([scheduler.controllers] if scheduler.controllers is not None else ()),
            *self._plugins_with_state(),
        ]

    def _plugins_with_state(self) -> list[Undoable]:
        """Return the plugins that take part in transactions."""
        plugins = [p for engine in self._scheduler.engines.values() for p in engine.profile.plugins]
        return [cast(Undoable, p) for p in plugins if hasattr(p, "save") and hasattr(p, "undo")]

    def save(self) -> object:
        """Save the store and all parts.

        Returns
        -------
        object
            The argument of `undo` and `release`.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        return self._store_to(FOREIGN, RUNNING).save(), [(part, part.save()) for part in self._parts()]

    def copyable_store(self) -> ObjectStore:
        """Return the store of a scheduler that can be forked.

        Raises
        ------
        MoorageError
            The client is no ObjectStore, or pods are being bound.
        """
        return self._store_to(NO_COPY, NO_FORK)

    def _store_to(self, foreign: str, running: str) -> ObjectStore:
        """Return the store, or raise the errors for that of others, and while pods are being bound."""
        scheduler = self._scheduler
        if scheduler.store is None:
            raise MoorageError(foreign.format(type(scheduler.client).__name__))
        if scheduler.bindings.running:
            raise MoorageError(running)
        return scheduler.store

    def copy_from(self, other: TransactionParts, queued: bool) -> None:
        """Take the state of all parts of another scheduler, of whose cache and store this one has copies;
        with the pods in its queue or without."""
        here, there = self._scheduler, other._scheduler
        here.informers.copy_from(there.informers)
        here.pods.undo(there.pods.save())
        here.queue.copy_from(there.queue, queued)
        engines = here.context.rotation.copy_from(there.context.rotation)
        here.handle.waiting_pods.copy_from(there.handle.waiting_pods)
        here.bindings.copy_from(there.bindings, engines)
        here.handle.recorder.copy_from(there.handle.recorder)
        here.handle.plugin_errors.counts.update(there.handle.plugin_errors.counts)
        here.volumes.copy_from(cast(Any, there.volumes))
        if here.controllers is not None and there.controllers is not None:
            here.controllers.undo(there.controllers.save())
        self._shared.copy_from(other._shared)
        for mine, its in zip(self._plugins_with_state(), other._plugins_with_state(), strict=True):
            mine.undo(its.save())

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        mark, parts = cast(Any, saved)
        self._scheduler.bindings.stop()  # first, to end the writes of threads
        store = cast(ObjectStore, self._scheduler.client)
        if store.is_open(mark):  # else it has been undone, before a signal ended this method
            store.undo(mark)  # before informers, so that watches rewind
        end_each(parts, "undo")

    def release(self, saved: object) -> None:
        """Drop the state of `save` without restoring it."""
        mark, _ = cast(Any, saved)
        store = cast(ObjectStore, self._scheduler.client)
        if store.is_open(mark):
            store.release(mark)
