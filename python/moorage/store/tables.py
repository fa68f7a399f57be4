"""The contents of a store: the objects of each kind, the history of their changes, and marks to return to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from moorage._core.base.watch_events import Cause, ObjectMap
from moorage.errors import MoorageError
from moorage.kube import Object, Pod
from moorage.kube.model.meta import Condition

from .errors import ResourceExpiredError, is_namespaced, not_found, struct_named
from .pod_binding import PodBinder, refusal
from .protocol import EventType, WatchEvent

if TYPE_CHECKING:
    from .selectors import Predicate

T = TypeVar("T", bound=Object)
R = TypeVar("R")
Make = Callable[[T, str, Any], T]
"""Makes the object of an event from the previous one, the resource version and an argument."""
FIRST_VERSION = 1
"""The resource version of a store without a write."""


_READABLE = attrgetter("readable")


class Rewound(Protocol[T]):
    """A watch, as its table knows it."""

    def rewind(self, position: int, undone: list[WatchEvent[T]], version: str) -> None:
        """Follow the table, which has undone events; see `Watch.rewind`."""


class Save:
    """A mark of a saved state of a store; see `ObjectStore.save`.

    Parameters
    ----------
    version : int
        Resource version of the state.
    readable : dict of (type or str) to int
        The number of readable events of each kind.

    Attributes
    ----------
    denied : dict of str to str
        See `ObjectStore.denied`.
    uid_prefix : str
        With which the UIDs of new objects begin.
    """

    __slots__ = ("denied", "readable", "uid_prefix", "version")

    def __init__(self, version: int, readable: dict[type[Object] | str, int]) -> None:
        self.version, self.readable = version, readable
        self.denied: dict[str, str] = {}
        self.uid_prefix = ""


def _version(event: WatchEvent[T]) -> int:
    """Return the resource version of an event as a number."""
    return int(event.resource_version)


class ObjectTable(Generic[T]):
    """The objects of one kind by key, their last events, and the watches that read these events.

    The position of an event is the number of the events before it; it never changes. Readers reach the last
    `capacity` events. Older events are freed now and then, but not while a mark is open, since `undo` needs
    them.

    Parameters
    ----------
    capacity : int
        The number of events that can be read. Those of the last write can be read by the watches that were
        open, however many they are.
    saves : list
        The open marks of the store.

    Attributes
    ----------
    objects : ObjectMap
        By ``namespace/name``.
    changes : int
        The value of `Tables.changes` after the last write or `undo`.
    readable : int
        The number of events that can be read now.
    watches : set of Watch
        The open watches, which `undo` rewinds.
    """

    def __init__(self, struct: type[T], capacity: int, saves: list[object]) -> None:
        self.struct = struct
        self.namespaced = is_namespaced(struct)
        self.objects: ObjectMap[T] = ObjectMap({})
        self.changes = 0
        self.watches: WeakSet[Rewound[T]] = WeakSet()
        self._capacity = self.readable = capacity
        self._saves = saves
        self._events: list[WatchEvent[T]] = []
        self._freed = 0
        self._keys: dict[str, set[str]] = {}  # by namespace, with some of gone objects; empty until asked for

    def select(self, match: Predicate[T] | None, namespace: str = "") -> list[T]:
        """Return objects in the order of their keys.

        Parameters
        ----------
        match : callable or None
            True for the objects to return; None for all.
        namespace : str, optional
            Objects of others are not looked at. "" for all namespaces.
        """
        keys: Iterable[str] = self.objects
        if namespace and self.namespaced:
            if not self._keys:
                for key in keys:
                    self._keep_key(key)
            known = self._keys.get(namespace, set())
            keys = [key for key in known if key in self.objects]
            if len(known) > 2 * len(keys):
                self._keys[namespace] = set(keys)
        objects = list(map(self.objects.__getitem__, sorted(keys)))
        return list(filter(match, objects)) if match else objects

    def record(self, event: WatchEvent[T]) -> None:
        """Apply an event to the objects and append it to the history."""
        self.objects.record(event, self._events)
        self._know(event)
        self.free(1)

    def _know(self, event: WatchEvent[T], makes: EventType = "ADDED") -> None:
        """Keep the key of an object that an event of a type makes."""
        if self._keys and event.type == makes:
            self._keep_key(event.object.key)

    def _keep_key(self, key: str) -> None:
        self._keys.setdefault(key.partition("/")[0], set()).add(key)

    def create(self, objects: Sequence[T], uid_prefix: str, now: str, version: int) -> int:
        """Add new objects; see `ObjectMap.create`.

        Parameters
        ----------
        version : int
            The resource version of the first object.

        Returns
        -------
        int
            The number of objects that were added.
        """
        before = len(self._events)
        added = self.objects.create(objects, self.namespaced, uid_prefix, now, version, self._events)
        for event in self._events[before:] if self._keys else ():
            self._know(event)
        self.free(len(self._events) - before)
        return added

    def update(self, objects: Sequence[T], version: int) -> bool:
        """Replace objects, all or none; see `ObjectMap.update`.

        Parameters
        ----------
        version : int
            The resource version of the first new state.

        Returns
        -------
        bool
            False, and none is replaced, if one needs a closer look.
        """
        replaced = -1
        try:
            replaced = self.objects.update(objects, version, self._events)
        finally:
            if replaced < len(objects):
                self.undo(version - 1)
        if replaced < len(objects):
            return False
        self.free(replaced)
        return True

    def bind(
        self: ObjectTable[Pod],
        pods: Sequence[Pod],
        nodes: Sequence[str],
        keys: Sequence[str],
        make: PodBinder,
        version: int,
    ) -> None:
        """Bind pods; see `ObjectMap.bind`. The caller undoes what was done before an exception, and calls
        `free` otherwise.

        Parameters
        ----------
        keys : sequence of str
            ``namespace/name`` of each pod.
        version : int
            The resource version of the first binding.

        Raises
        ------
        NotFoundError, ConflictError, InvalidObjectError
            A pod cannot be bound.
        """
        bound = self.objects.bind(pods, nodes, keys, make, version, self._events)
        if bound < len(pods):
            raise refusal(pods[bound], self.objects.get(keys[bound]), nodes[bound])

    def set_condition(
        self, objects: Sequence[T], condition: Condition, make: Make[T], version: int, stays: str
    ) -> list[bool]:
        """Set a condition of objects; see `ObjectMap.set_condition`.

        Parameters
        ----------
        version : int
            The resource version of the first change.
        """
        before = len(self._events)
        changed = self.objects.set_condition(objects, condition, make, version, self._events, stays)
        self.free(len(self._events) - before)
        return changed

    def evict(
        self: ObjectTable[Pod],
        pods: Sequence[Pod | WatchEvent[Pod]],
        condition: Condition,
        make: Make[Pod],
        remove: Make[Pod],
        version: int,
    ) -> list[bool]:
        """Add a condition to pods and delete them; see `ObjectMap.evict`.

        Parameters
        ----------
        version : int
            The resource version of the first change.
        """
        before = len(self._events)
        evicted = self.objects.evict(pods, condition, make, remove, version, self._events)
        self.free(len(self._events) - before)
        return evicted

    def free(self, written: int) -> None:
        """Free old events, if there are enough of them, after a write of some events."""
        if not written:
            return
        self.readable = written if written > self._capacity and self.watches else self._capacity
        if not self._saves:
            self.free_old()

    def free_old(self) -> None:
        """Free the events that nobody can read, if they are many."""
        if (old := len(self._events) - self.readable) > self.readable:
            self._freed += old
            del self._events[:old]

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._freed + len(self._events)

    @property
    def _oldest(self) -> int:
        """Index of the first event that can be read."""
        return max(0, len(self._events) - self.readable)

    def position(self, version: int) -> int:
        """Return the position of the first event after a resource version.

        Raises
        ------
        ResourceExpiredError
            That event may have been freed.
        """
        if not self._events:
            return self._freed
        first = self._freed + self._oldest
        if first and version < _version(self._events[self._oldest]) - 1:
            raise self._expired(str(version))
        return self._freed + bisect_right(self._events, version, key=_version)

    def since(self, position: int, version: str) -> list[WatchEvent[T]]:
        """Return the next events for a reader.

        Parameters
        ----------
        position : int
            Of the first event to return.
        version : str
            The resource version that the reader has reached, for the error.

        Raises
        ------
        ResourceExpiredError
            The first of the events has been freed.
        """
        index = position - self._freed
        if index < 0 or index < len(self._events) - self.readable:
            raise self._expired(version)
        return self._events[index:]

    def removed(self) -> Iterator[T]:
        """Yield the objects that the last events have removed, each as it was at last."""
        return (event.object for event in self._events if event.type == "DELETED")

    def _expired(self, version: str) -> ResourceExpiredError:
        """Return the error for a reader at a resource version that is too old."""
        bound = _version(self._events[self._oldest]) - 1
        return ResourceExpiredError(f"too old resource version: {version} ({bound})")

    def is_at(self, version: int) -> bool:
        """Whether there is no event after a resource version."""
        return not self._events or _version(self._events[-1]) <= version

    def undo(self, version: int) -> None:
        """Restore the objects and the history as they were at a resource version, and rewind the watches.

        Parameters
        ----------
        version : int
            Resource version of an open mark.
        """
        index = bisect_right(self._events, version, key=_version)
        undone = self._events[index:]
        for watch in self.watches:
            watch.rewind(self._freed + index, undone, str(version))
        for event in undone:  # `select` may have dropped the keys of what is back
            self._know(event, "DELETED")
        self.objects.take_back(undone)
        del self._events[index:]  # last: while they are there, all this can be repeated

    def copy(self, saves: list[object]) -> ObjectTable[T]:
        """Return an independent copy without watches.

        Parameters
        ----------
        saves : list
            The open marks of the store that the copy is for.
        """
        copy = ObjectTable(self.struct, self._capacity, saves)
        copy.objects, copy._events = self.objects.copy(), self._events.copy()
        copy._freed, copy.readable = self._freed, self.readable
        return copy


class Tables:
    """The tables of a store by kind, each made on first use, and the counter that numbers all writes.

    Parameters
    ----------
    capacity : int
        The number of events of each kind that can be watched back.

    Attributes
    ----------
    version : int
        The resource version of the last write.
    written : callable
        Returns the table of a kind; None if nothing of it was ever asked for.
    every : callable
        Returns the tables of all kinds that were asked for.
    changes : int
        The number of writes and of calls of `undo`.
    """

    def __init__(self, capacity: int) -> None:
        self.version, self.changes = FIRST_VERSION, 0
        self._last: ObjectTable[Any] | None = None  # the table of all writes after `_others`
        self._others = 0  # the value of `changes` after the last write to another table
        self._capacity = capacity
        self._tables: dict[type[Object] | str, ObjectTable[Any]] = {}
        self.written, self.every = self._tables.get, self._tables.values
        self._saves: list[object] = []

    def __getitem__(self, kind: type[T] | str) -> ObjectTable[T]:
        table = self._tables.get(kind)
        if table is None:
            struct = struct_named(kind) if isinstance(kind, str) else kind
            table = self._tables.get(struct) or ObjectTable(struct, self._capacity, self._saves)
            self._tables[struct] = table
        return table

    def find(self, kind: type[T] | str, key: str) -> T:
        """Return one object.

        Parameters
        ----------
        kind : type or str
            The struct of a kind, or its name.
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.

        Raises
        ------
        NotFoundError
            The object does not exist.
        """
        table = self[kind]
        obj: T | None = table.objects.get(key)
        if obj is None:
            raise not_found(table.struct, key.rpartition("/")[2])
        return obj

    def record(
        self,
        event: EventType,
        obj: T,
        previous: T | None,
        meta: dict[str, str],
        cause: Cause = Cause.OTHER,
        **parts: Any,
    ) -> T:
        """Write one object. Every write of a store ends here.

        Parameters
        ----------
        obj : Object
            The new state; for DELETED the last one.
        previous : Object or None
            The state before the write.
        meta : dict
            Fields of the metadata to set besides the resource version.
        cause : Cause, optional
            What the store was asked to do.
        **parts : object
            Fields of the object to set.
        """
        self.version += 1
        version = str(self.version)
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=version, **meta), **parts)
        table = self._tables[type(obj)]
        self._wrote(table, 1)
        table.record(WatchEvent(event, obj, version, previous, cause))
        return obj

    def _wrote(self, table: ObjectTable[Any], writes: int) -> None:
        """Count writes to a table."""
        if table is not self._last:
            self._last, self._others = table, self.changes
        self.changes += writes
        table.changes = self.changes

    def set_condition(
        self, objects: Sequence[T], condition: Condition, make: Make[T], stays: str
    ) -> list[bool]:
        """Set a condition of objects of one kind; see `ObjectMap.set_condition`.

        Parameters
        ----------
        objects : sequence of Object
            Not empty.
        """
        table = self[type(objects[0])]
        return self._numbered(
            table, len(objects), lambda first: table.set_condition(objects, condition, make, first, stays)
        )

    def evict(
        self,
        pods: Sequence[Pod | WatchEvent[Pod]],
        condition: Condition,
        make: Make[Pod],
        remove: Make[Pod],
    ) -> list[bool]:
        """Add a condition to pods and delete them; see `ObjectMap.evict`.

        Returns
        -------
        list of bool
            Of each pod up to the first with finalizers, whether it existed.
        """
        table = self[Pod]
        return self._numbered(
            table, 2 * len(pods), lambda first: table.evict(pods, condition, make, remove, first)
        )

    def _numbered(self, table: ObjectTable[Any], most: int, write: Callable[[int], R]) -> R:
        """Return the result of `write`, which numbers its writes, at most `most`, from its argument on.

        If an interrupt ends it, versions are left out, and none is used twice.
        """
        version, before = self.version, table.end
        self.version += most
        self._wrote(table, most)
        result = write(version + 1)
        unused = before + most - table.end
        self.version -= unused
        self._wrote(table, -unused)
        return result

    def create(self, objects: Sequence[T], uid_prefix: str, now: str) -> int:
        """Store new objects of one kind, up to one that needs a name or is refused; see `ObjectMap.create`.

        Parameters
        ----------
        objects : sequence of Object
            Not empty.
        uid_prefix : str
            The UID of an object without one is this and the resource version.
        now : str
            The creation time of an object without one.

        Returns
        -------
        int
            The number of objects that were stored.
        """
        table = self[type(objects[0])]
        added = table.create(objects, uid_prefix, now, self.version + 1)
        self.version += added
        self._wrote(table, added)
        return added

    def update(self, objects: Sequence[Object]) -> bool:
        """Replace objects of one kind, all or none; see `ObjectMap.update`.

        Parameters
        ----------
        objects : sequence of Object
            Not empty.

        Returns
        -------
        bool
            False, and none is replaced, if one needs a closer look.
        """
        table = self[type(objects[0])]
        if not table.update(objects, self.version + 1):
            return False
        self.version += len(objects)
        self._wrote(table, len(objects))
        return True

    def bind(self, pods: Sequence[Pod], nodes: Sequence[str], keys: Sequence[str], now: str) -> None:
        """Bind each pod to its node; if one binding fails, no pod is bound. The objects of the bound pods are
        made when they are read.

        Parameters
        ----------
        keys : sequence of str
            ``namespace/name`` of each pod.
        now : str
            The transition time of the condition PodScheduled.

        Raises
        ------
        NotFoundError, ConflictError, InvalidObjectError
            A pod cannot be bound.
        """
        table, before = self[Pod], self.version
        try:
            table.bind(pods, nodes, keys, PodBinder(now), before + 1)
            self.version = before + len(pods)
            self._wrote(table, len(pods))
        except BaseException:
            table.undo(before)
            self.version = before
            raise
        table.free(len(pods))

    def changed_since(self, changes: int) -> list[type[Object]]:
        """Return the kinds that were written after `changes` had a value.

        Parameters
        ----------
        changes : int
            An earlier value of `changes`.
        """
        if self._last is not None and self._others <= changes < self.changes:
            return [self._last.struct]
        return [table.struct for table in self._tables.values() if table.changes > changes]

    def save(self) -> Save:
        """Return a mark for `undo` or `release`."""
        readable = map(_READABLE, self._tables.values())
        mark = Save(self.version, dict(zip(self._tables, readable, strict=True)))
        self._saves.append(mark)
        return mark

    def is_open(self, mark: Save) -> bool:
        """Whether a mark was neither undone nor released."""
        return mark in self._saves

    def undo(self, mark: Save) -> None:
        """Restore all tables as they were at a mark. The mark and all later ones are closed.

        Raises
        ------
        MoorageError
            See `release`; nothing is restored then.
        """
        self._require_open(mark)
        self.changes += 1
        self._last = None
        for kind, table in self._tables.items():
            if not table.is_at(mark.version):
                table.changes = self.changes
                table.readable = mark.readable.get(kind, self._capacity)
                table.undo(mark.version)
        self.version = mark.version
        self.release(mark)  # last: while it is open, all this can be repeated

    def release(self, mark: Save) -> None:
        """Close a mark and all later ones without restoring anything.

        Raises
        ------
        MoorageError
            The mark is closed, or is of another store.
        """
        self._require_open(mark)
        del self._saves[self._saves.index(mark) :]
        if not self._saves:
            for table in self._tables.values():
                if len(table._events) > 2 * table.readable:  # seldom: a call for each table would cost more
                    table.free_old()

    def _require_open(self, mark: Save) -> None:
        if not self.is_open(mark):
            text = "this is no open mark of the store: undo() and release() close a mark and all later ones"
            raise MoorageError(text)

    def copy(self) -> Tables:
        """Return an independent copy, without watches and open marks."""
        copy = Tables(self._capacity)
        copy.version = self.version
        for kind, table in self._tables.items():
            copy._tables[kind] = table.copy(copy._saves)
        return copy
