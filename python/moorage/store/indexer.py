"""The local copy of an informer: with indexes, and read by listers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, cast

from fastrlock.rlock import FastRLock

from moorage._core.base.indexed_objects import IndexedObjects, Mark, Reader
from moorage._core.base.watch_events import Notice, WatchEvent
from moorage.kube import LabelSelector, LabelSelectorMatcher, Object
from moorage.kube.model.meta import selected_labels
from moorage.saved_fields import SavedFields
from moorage.short_repr import ShortRepr

from .errors import NotFoundError, singular

T = TypeVar("T", bound=Object)
IndexFunction: TypeAlias = Callable[[T], Iterable[str]]

NAMESPACE_INDEX = "namespace"


def by_namespace(obj: Object) -> tuple[str]:
    """Return the value of an object in the namespace index, which every indexer has."""
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

    def extend(self, keys: Sequence[str]) -> None:
        """Log changes of objects. The caller holds the lock of the indexer, as for all methods that write.

        Parameters
        ----------
        keys : sequence of str
            Of the objects, in the order of the changes.
        """
        self._keys.extend(keys)
        self.head += len(keys)

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
            self.extend(keys[::-1])

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


class Indexer(ShortRepr, SavedFields, Generic[T]):
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

    shows = "{1} objects"

    def __init__(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        self._objects: IndexedObjects[T] = IndexedObjects()
        for name, function in {NAMESPACE_INDEX: by_namespace, **indexers}.items():
            self._objects.define(name, function, name == NAMESPACE_INDEX)
        self._log: KeyLog | None = None
        self.changes = 0
        self.lock = FastRLock()

    def save(self) -> object:
        """Return the contents, for `undo`. That takes no time; what changes is kept while the result is."""
        with self.lock:
            return self._objects.save(), 0 if self._log is None else self._log.head

    def is_at(self, saved: object) -> bool:
        """Whether nothing has changed, and nothing was saved, since `save`."""
        with self.lock:
            return self._objects.is_at(cast("tuple[Mark, int]", saved)[0])

    def undo(self, saved: object) -> None:
        """Restore the contents of `save`. The log of keys lists everything that changed since as changed
        again.

        Parameters
        ----------
        saved : object
            The result of `save`. What was saved later is void.
        """
        with self.lock:
            objects, head = cast("tuple[Mark, int]", saved)
            if self._objects.has_changed_since(objects):
                self.changes += 1
                if self._log is not None:
                    self._log.repeat(head)
                self._objects.undo(objects)  # last: until then, all this can be repeated

    def copy_from(self, other: Indexer[T]) -> None:
        """Take a copy of the contents of another indexer."""
        with other.lock, self.lock:
            self._objects.copy_from(other._objects)
            self.changes += 1
            if self._log is not None:
                self._log.forget()

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
            self._objects.define(name, function, is_lasting)

    def reader(self, assumed: dict[str, T] | None = None) -> Reader:
        """Return what reads the objects for the core.

        Parameters
        ----------
        assumed : dict of str to Object, optional
            Objects to read instead.
        """
        with self.lock:
            return Reader(self.get, self._objects, assumed)

    def get(self, key: str) -> T | None:
        """Return the object of a key, or None.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.
        """
        with self.lock:
            return self._objects.get(key)

    def get_many(self, keys: Iterable[str]) -> list[T | None]:
        """Return the object of each key, or None for a key without one.

        Parameters
        ----------
        keys : iterable of str
            Each ``namespace/name``, or the name where the kind has no namespaces.
        """
        with self.lock:
            return list(map(self._objects.get, keys))

    def identity(self, key: str) -> T | None:
        """Return an object that exists already and is like that of a key; see `identities_of`."""
        with self.lock:
            return self._objects.identity(key)

    def identities_of(self, keys: Iterable[str]) -> list[T | None]:
        """Return for each key an object that exists already and is like that of the key, except in what
        bindings set, in conditions and in the resource version; None for a key without an object.

        Parameters
        ----------
        keys : iterable of str
            Each ``namespace/name``, or the name where the kind has no namespaces.
        """
        with self.lock:
            return list(map(self._objects.identity, keys))

    def __len__(self) -> int:
        return len(self._objects)

    def items(self) -> dict[str, T]:
        """Return a new dict of key to object."""
        with self.lock:
            return self._objects.to_dict()

    def values(self) -> list[T]:
        """Return all objects, in the order in which they were added."""
        with self.lock:
            return list(self._objects.to_dict().values())

    def identities(self) -> list[T]:
        """Return objects that exist already and are like those of `values`, except in what bindings set, in
        conditions and in the resource version."""
        with self.lock:
            return self._objects.identities()

    def by_index(self, name: str, value: str) -> list[T]:
        """Return the objects that have a value in an index.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return list(map(cast("Callable[[str], T]", self._objects.get), self._objects.keys(name, value)))

    def selected(self, name: str, namespace: str, selector: LabelSelector | None) -> list[T]:
        """Return the objects of a namespace that a selector matches.

        Parameters
        ----------
        name : str
            Of an index of labels (`by_label`).
        """
        matches, labels = LabelSelectorMatcher(selector).matches, selected_labels(namespace, selector)
        labelled = (obj for label in labels for obj in self.by_index(name, label))
        return [obj for obj in labelled if matches(obj.metadata.labels)]

    def items_by_index(self, name: str, value: str) -> dict[str, T]:
        """Return the objects that have a value in an index, by key; see `by_index`.

        Returns
        -------
        dict of str to Object
            A copy.
        """
        with self.lock:
            get = self._objects.get
            return {key: cast(T, get(key)) for key in self._objects.keys(name, value)}

    def identities_by_index(self, name: str, value: str) -> list[T]:
        """Return objects that exist already and are like those of `by_index`, except in what bindings set, in
        conditions and in the resource version.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return self._objects.identities_by_index(name, value)

    def select(self, name: str, values: Iterable[str], is_wanted: Callable[[T], bool]) -> list[list[T]]:
        """Return some of the objects that have each value in an index; see `by_index`.

        Parameters
        ----------
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
            keys = self._objects.keys
            get = cast("Callable[[str], T]", self._objects.get)
            like = cast("Callable[[str], T]", self._objects.identity)
            return [[get(key) for key in keys(name, value) if is_wanted(like(key))] for value in values]

    def list_index_func_values(self, name: str) -> list[str]:
        """Return the values that the objects have in an index.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return self._objects.values_of(name)

    def count(self, name: str, value: str) -> int:
        """Return the number of objects that have a value in an index.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return self._objects.count(name, value)

    def apply(
        self, events: Sequence[WatchEvent[T]], tombstone: Callable[[str, T], Any], notices: list[Notice[T]]
    ) -> None:
        """Apply events in their order; see `IndexedObjects.apply`.

        Parameters
        ----------
        tombstone : callable
            Returns what stands for an object whose deletion was not observed, from its key and last state.
        notices : list of Notice
            Takes what handlers are to be told.
        """
        with self.lock:
            self.changes += 1
            try:
                self._objects.apply(events, tombstone, notices)
                if self._log is not None:
                    self._log.extend([event.key for event in events])
            except BaseException:
                self._objects.forget_indexes()
                if self._log is not None:
                    self._log.forget()
                raise

    def put(self, key: str, obj: T | None) -> T | None:
        """Store an object; None removes it.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.

        Returns
        -------
        Object or None
            The object that it replaces.
        """
        with self.lock:
            self.changes += 1
            if self._log is not None:
                self._log.extend([key])
            return self._objects.put(key, obj)

    def put_newer(self, objects: Iterable[T], assumed: dict[str, T]) -> list[str | None]:
        """Store objects that are newer than those of their keys, up to one that needs a closer look; see
        `IndexedObjects.put_newer`.

        Parameters
        ----------
        assumed : dict of str to Object
            Objects that count instead of those that are stored; an object that is stored ends them.

        Returns
        -------
        list of str or None
            The keys of the objects; None for one that is not newer.
        """
        with self.lock:
            keys = self._objects.put_newer(objects, assumed)
            stored = [key for key in keys if key is not None]
            self.changes += len(stored)
            if self._log is not None:
                self._log.extend(stored)
            return keys

    def remove(self, key: str) -> T | None:
        """Remove the object of a key; return it, or None where there is none.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name where the kind has no namespaces.
        """
        return self.put(key, None)

    def replace(self, objects: dict[str, T]) -> None:
        """Replace the contents.

        Parameters
        ----------
        objects : dict of str to Object
            By key. The indexer takes ownership of the dict.
        """
        with self.lock:
            self._objects.replace(objects)
            self.changes += 1
            if self._log is not None:
                self._log.forget()


# ---- lister ------------------------------------------------------------------------------------------------
#
# Lister: reads the local copy of an informer.

Objects = list


class Lister(ShortRepr, Generic[T]):
    """Reads the objects of one kind, in one namespace or in all, like client-go's listers.

    Parameters
    ----------
    indexer : Indexer
        An informer's local copy.
    namespace : str
        The one namespace; "" for all.
    """

    shows = "{0._struct.__name__}, {0._indexer}"

    def __init__(self, struct: type[T], indexer: Indexer[T], namespace: str = "") -> None:
        self._struct = struct
        self._indexer = indexer
        self._namespace = namespace

    @property
    def changes(self) -> int:
        """The number of changes of the local copy so far."""
        return self._indexer.changes

    @property
    def is_empty(self) -> bool:
        """Whether the local copy has no objects, in any namespace."""
        return not len(self._indexer)

    def by_namespace(self, namespace: str) -> Lister[T]:
        """Return a lister of one namespace."""
        return Lister(self._struct, self._indexer, namespace)

    def get(self, name: str) -> T:
        """Return one object.

        Parameters
        ----------
        name : str
            In a lister of one namespace the object's name, else its key, ``namespace/name``.

        Raises
        ------
        NotFoundError
            The copy does not have the object.
        """
        obj = self._indexer.get(f"{self._namespace}/{name}" if self._namespace else name)
        if obj is None:
            what, short = singular(self._struct), name.rpartition("/")[2]
            raise NotFoundError(f'{what} "{short}" not found')
        return obj

    def list(self, selector: LabelSelectorMatcher | None = None) -> Objects[T]:
        """Return the objects whose labels match a selector; without one, all objects."""
        indexer, namespace = self._indexer, self._namespace
        objects = indexer.by_index(NAMESPACE_INDEX, namespace) if namespace else indexer.values()
        return [obj for obj in objects if selector is None or selector.matches(obj.metadata.labels)]

    def by_index(self, name: str, value: str) -> Objects[T]:
        """Return the objects of the lister's namespace that have a value in an index.

        Raises
        ------
        KeyError
            There is no such index.
        """
        objects = self._indexer.by_index(name, value)
        return [obj for obj in objects if obj.namespace == self._namespace] if self._namespace else objects
