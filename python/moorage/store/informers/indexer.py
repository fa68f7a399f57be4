"""Indexer: the local copy of an informer, with indexes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, cast

from fastrlock.rlock import FastRLock

from moorage._core.base.watch_events import Notice, ObjectMap, WatchEvent, likenesses
from moorage.objects import Object

T = TypeVar("T", bound=Object)
IndexFunction: TypeAlias = Callable[[T], Iterable[str]]

NAMESPACE_INDEX = "namespace"


def by_namespace(obj: Object) -> tuple[str]:
    """Return the value of an object in the namespace index, which every indexer has.

    Parameters
    ----------
    obj : Object

    Returns
    -------
    (str,)
    """
    return (obj.metadata.namespace,)


class KeyLog:
    """A log of the keys of changed objects, for readers that derive data from an indexer's objects.

    A reader remembers `head` before it reads the objects, and asks `since` for the keys that changed after
    it.

    Parameters
    ----------
    lock : lock
        Of the indexer.
    capacity : int
        The number of keys that the log holds.

    Attributes
    ----------
    head : int
        Grows with each change.
    """

    def __init__(self, lock: FastRLock, capacity: int = 1 << 14) -> None:
        self.head = 0
        self._lock = lock
        self._keys: deque[str] = deque(maxlen=capacity)

    def append(self, key: str) -> None:
        """Log a change of an object. The caller holds the lock of the indexer, as for all methods that write.

        Parameters
        ----------
        key : str
            Of the object.
        """
        self._keys.append(key)
        self.head += 1

    def forget(self) -> None:
        """Record that any object may have changed: `since` returns None for every earlier cursor."""
        self._keys.clear()
        self.head += 1

    def repeat(self, head: int) -> None:
        """Log the changes after a position again, as an `undo` has reversed them.

        Parameters
        ----------
        head : int
            An earlier value of `head`.
        """
        keys = self.since(head)
        if keys is None:
            self.forget()
        else:
            for key in reversed(keys):
                self.append(key)

    def since(self, cursor: int) -> list[str] | None:
        """Return the keys of the objects that have changed after a cursor.

        Parameters
        ----------
        cursor : int
            An earlier value of `head`.

        Returns
        -------
        list of str or None
            The last change first; None where the log does not reach back to the cursor.
        """
        with self._lock:
            missed = self.head - cursor
            return list(islice(reversed(self._keys), missed)) if missed <= len(self._keys) else None


class Indexer(Generic[T]):
    """Objects by key (``namespace/name``), like client-go's Indexer. An index is built when it is first read.

    Parameters
    ----------
    indexers : mapping of str to callable
        By index name the function that returns the values of an object in that index. The index "namespace"
        is always there.

    Attributes
    ----------
    changes : int
        The number of changes so far; equal numbers mean equal contents.
    """

    def __init__(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        self._functions: dict[str, IndexFunction[T]] = {NAMESPACE_INDEX: by_namespace, **indexers}
        self._lasting = {NAMESPACE_INDEX}  # indexes that bindings do not change
        self._indexes: dict[str, dict[str, dict[str, None]]] = {}  # keys by value, in order
        self._own: dict[str, set[str]] = {}  # values whose keys no saved state shares, by index
        self._objects: ObjectMap[T] = ObjectMap({})
        self._log: KeyLog | None = None
        self.changes = 0
        self._is_saved = False  # whether a saved state shares the dicts; the next change then copies them
        self.lock = FastRLock()

    def save(self) -> object:
        """Return the contents, for `undo`. They are copied before the next change."""
        with self.lock:
            self._is_saved = True
            head = 0 if self._log is None else self._log.head
            return self._objects, self._indexes, self._functions, head

    def undo(self, saved: object) -> None:
        """Restore the contents of `save`. The log of keys lists everything that changed since as changed
        again.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        with self.lock:
            objects, indexes, self._functions, head = cast(tuple[ObjectMap[T], Any, Any, int], saved)
            self._indexes = {name: index for name, index in indexes.items() if name in self._functions}
            if objects is self._objects:
                return
            self._is_saved = True  # an earlier `save` may share these dicts
            self._objects = objects
            self.changes += 1
            if self._log is not None:
                self._log.repeat(head)

    def copy_from(self, other: Indexer[T]) -> None:
        """Take the contents of another indexer. They are shared until the next change of either.

        Parameters
        ----------
        other : Indexer
        """
        with other.lock, self.lock:
            self._is_saved = other._is_saved = True
            self._objects = other._objects
            self._indexes = {
                name: index
                for name, index in other._indexes.items()
                if self._functions.get(name) is other._functions[name]
            }
            self.changes += 1
            if self._log is not None:
                self._log.forget()

    def _copy(self) -> None:
        """Copy the contents, so that those of `save` stay as they are."""
        self._is_saved = False
        self._objects = self._objects.copy()
        self._indexes = {name: index.copy() for name, index in self._indexes.items()}
        self._own = {}  # the keys of a value are copied when it is changed

    def follow(self) -> KeyLog:
        """Return the log of the keys of changed objects. All readers share it; the first call makes it."""
        with self.lock:
            if self._log is None:
                self._log = KeyLog(self.lock)
            return self._log

    def add_index(self, name: str, function: IndexFunction[T], is_lasting: bool = False) -> None:
        """Add an index.

        Parameters
        ----------
        name : str
        function : callable
            Returns the values of an object in the index.
        is_lasting : bool, optional
            Whether the values depend on nothing that bindings, conditions and the resource version change, so
            that no object needs to be made for the index.

        Raises
        ------
        ValueError
            There is an index of that name.
        """
        with self.lock:
            if name in self._functions:
                raise ValueError(f"indexer conflict: {name}")
            self._functions = {**self._functions, name: function}  # a saved state may share the old dict
            (self._lasting.add if is_lasting else self._lasting.discard)(name)

    def get(self, key: str) -> T | None:
        """Return the object of a key, or None.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.

        Returns
        -------
        Object or None
        """
        with self.lock:
            return self._objects.get(key)

    def get_many(self, keys: Iterable[str]) -> list[T | None]:
        """Return the object of each key, or None for a key without one.

        Parameters
        ----------
        keys : iterable of str
            Each ``namespace/name``, or the name where the kind has no namespaces.

        Returns
        -------
        list of Object or None
        """
        with self.lock:
            return list(map(self._objects.get, keys))

    def __len__(self) -> int:
        with self.lock:
            return len(self._objects)

    def items(self) -> dict[str, T]:
        """Return a new dict of key to object."""
        with self.lock:
            return self._objects.to_dict()

    def values(self) -> list[T]:
        """Return all objects, in the order in which they were added."""
        with self.lock:
            return list(self._objects.to_dict().values())

    def likenesses(self) -> list[T]:
        """Return objects that exist already and are like those of `values`, except in what bindings set, in
        conditions and in the resource version."""
        with self.lock:
            return list(map(self._objects.likeness, self._objects))

    def by_index(self, name: str, value: str) -> list[T]:
        """Return the objects that have a value in an index.

        Parameters
        ----------
        name : str
            Of the index.
        value : str

        Returns
        -------
        list of Object

        Raises
        ------
        KeyError
            There is no such index.
        """
        return list(self.items_by_index(name, value).values())

    def items_by_index(self, name: str, value: str) -> dict[str, T]:
        """Return the objects that have a value in an index, by key; see `by_index`.

        Parameters
        ----------
        name : str
            Of the index.
        value : str

        Returns
        -------
        dict of str to Object
            A copy.
        """
        with self.lock:
            objects = self._objects
            return {key: objects[key] for key in self._index(name).get(value, ())}

    def select(self, name: str, values: Iterable[str], is_wanted: Callable[[T], bool]) -> list[list[T]]:
        """Return some of the objects that have each value in an index; see `by_index`.

        Parameters
        ----------
        name : str
            Of the index.
        values : iterable of str
        is_wanted : callable
            Asked about an object that is like the one to return, except in what bindings set, in conditions
            and in the resource version.

        Returns
        -------
        list of list of Object
            By value.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            index, objects, like = self._index(name), self._objects, self._objects.likeness
            return [
                [objects[key] for key in index.get(value, ()) if is_wanted(like(key))] for value in values
            ]

    def list_index_func_values(self, name: str) -> list[str]:
        """Return the values that the objects have in an index.

        Parameters
        ----------
        name : str
            Of the index.

        Returns
        -------
        list of str

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return list(self._index(name))

    def _index(self, name: str) -> dict[str, dict[str, None]]:
        """Return an index, built at the first use: value to the keys of its objects in order. Raises KeyError
        for an unknown name."""
        if name not in self._functions:
            raise KeyError(f"Index with name {name} does not exist")
        if name not in self._indexes:
            self._indexes[name] = {}
            of = self._objects.likeness if name in self._lasting else self._objects.__getitem__
            for key in list(self._objects):
                self._enter(name, key, None, of(key))
        return self._indexes[name]

    def count(self, name: str, value: str) -> int:
        """Return the number of objects that have a value in an index.

        Parameters
        ----------
        name : str
            Of the index.
        value : str

        Returns
        -------
        int

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return len(self._index(name).get(value, ()))

    def apply(
        self, events: Sequence[WatchEvent[T]], tombstone: Callable[[str, T], Any], notices: list[Notice[T]]
    ) -> None:
        """Apply events in their order; see `ObjectMap.apply`.

        Parameters
        ----------
        events : sequence of WatchEvent
        tombstone : callable
            Returns what stands for an object whose deletion was not observed, from its key and last state.
        notices : list of Notice
            Takes what handlers are to be told.
        """
        with self.lock:
            if self._is_saved:
                self._copy()
            self.changes += 1
            try:
                replaced = self._objects.apply(events, tombstone, notices)
                if self._log is not None or self._indexes:
                    self._applied(events, replaced)
            except BaseException:
                self._indexes, self._own = {}, {}  # built again when they are read
                if self._log is not None:
                    self._log.forget()
                raise

    def _applied(self, events: Sequence[WatchEvent[T]], replaced: Sequence[T | WatchEvent[T] | None]) -> None:
        """Log the keys of applied events, and bring the indexes up to date."""
        if self._log is not None:
            for event in events:
                self._log.append(event.key)
        changed = likenesses(events, replaced) if self._lasting.intersection(self._indexes) else ()
        for name in self._indexes:
            if name in self._lasting:
                for key, old, new in changed:
                    self._enter(name, key, old, new)
            else:
                for event, held in zip(events, replaced, strict=True):
                    before = held.object if isinstance(held, WatchEvent) else held
                    self._enter(name, event.key, before, None if event.type == "DELETED" else event.object)

    def put(self, key: str, obj: T) -> T | None:
        """Store an object.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.
        obj : Object

        Returns
        -------
        Object or None
            The object that it replaces.
        """
        with self.lock:
            if self._is_saved:
                self._copy()
            self.changes += 1
            old = self._objects.get(key)
            self._objects[key] = obj
            if self._log is not None:
                self._log.append(key)
            for name in self._indexes:
                self._enter(name, key, old, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Remove the object of a key; return it, or None where there is none.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.

        Returns
        -------
        Object or None
        """
        with self.lock:
            if self._is_saved:
                self._copy()
            self.changes += 1
            old = self._objects.get(key)
            self._objects.discard(key)
            if self._log is not None:
                self._log.append(key)
            for name in self._indexes:
                self._enter(name, key, old, None)
        return old

    def replace(self, objects: dict[str, T]) -> None:
        """Replace the contents.

        Parameters
        ----------
        objects : dict of str to Object
            By key. The indexer takes ownership of the dict.
        """
        with self.lock:
            self._objects, self._indexes, self._own = ObjectMap(objects), {}, {}
            self._is_saved = False
            self.changes += 1
            if self._log is not None:
                self._log.forget()

    def _enter(self, name: str, key: str, old: T | None, new: T | None) -> None:
        """Replace an object in an index; None for no object."""
        index, function = self._indexes[name], self._functions[name]
        own = self._own.setdefault(name, set())
        values = () if new is None else tuple(function(new))
        for value in () if old is None else dict.fromkeys(function(old)):
            if value not in values:
                if value not in own:
                    own.add(value)
                    index[value] = index[value].copy()
                del index[value][key]
                if not index[value]:
                    del index[value]
        if new is not None:
            for value in values:
                if value not in own:
                    own.add(value)
                    index[value] = index[value].copy() if value in index else {}
                index.setdefault(value, {})[key] = None
