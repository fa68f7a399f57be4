"""Indexer: the local copy that an informer keeps, with indexes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, cast

from fastrlock.rlock import FastRLock

from moorage.objects.model.meta import Object

T = TypeVar("T", bound=Object)
IndexFunction: TypeAlias = Callable[[T], Iterable[str]]

NAMESPACE_INDEX = "namespace"


def by_namespace(obj: Object) -> tuple[str]:
    """The function of the namespace index, which every indexer has."""
    return (obj.metadata.namespace,)


class KeyLog:
    """The keys of objects that have changed, for whoever keeps something derived from them and a cursor: the
    `head` that there was before the objects were read.

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
        self._keys.append(key)
        self.head += 1

    def forget(self) -> None:
        """Anything may have changed."""
        self._keys.clear()
        self.head += 1

    def repeat(self, head: int) -> None:
        """What has changed after `head` changes again."""
        keys = self.since(head)
        if keys is None:
            self.forget()
        else:
            for key in reversed(keys):
                self.append(key)

    def since(self, cursor: int) -> list[str] | None:
        """The keys of what has changed after `cursor`, the last one first; None where some are forgotten."""
        with self._lock:
            missed = self.head - cursor
            return list(islice(reversed(self._keys), missed)) if missed <= len(self._keys) else None


class Indexer(Generic[T]):
    """Objects by key (``namespace/name``), as client-go's Indexer. An index is built when it is first read.

    Parameters
    ----------
    indexers : mapping
        Index name to the function that gives an object's values in it.
    """

    def __init__(self, indexers: Mapping[str, IndexFunction[T]]) -> None:
        self._functions: dict[str, IndexFunction[T]] = {NAMESPACE_INDEX: by_namespace, **indexers}
        self._indexes: dict[str, dict[str, dict[str, T]]] = {}
        self._objects: dict[str, T] = {}
        self._log: KeyLog | None = None
        self._is_saved = False  # what it holds now is to be restored: the next change makes a copy first
        self.lock = FastRLock()

    def save(self) -> object:
        """What it holds, for `undo`. Copied when it next changes."""
        with self.lock:
            self._is_saved = True
            head = 0 if self._log is None else self._log.head
            return self._objects, self._indexes, self._functions, head

    def undo(self, saved: object) -> None:
        """Hold what it held at `save`, in the indexes of then; whoever follows hears that what has changed
        since changes again."""
        with self.lock:
            objects, indexes, self._functions, head = cast(tuple[dict[str, T], Any, Any, int], saved)
            self._indexes = {name: index for name, index in indexes.items() if name in self._functions}
            if objects is self._objects:
                return
            self._is_saved = True  # an earlier `save` may have the same objects
            self._objects = objects
            if self._log is not None:
                self._log.repeat(head)

    def _own(self) -> None:
        self._is_saved = False
        self._objects = self._objects.copy()
        self._indexes = {
            name: {value: found.copy() for value, found in index.items()}
            for name, index in self._indexes.items()
        }

    def follow(self) -> KeyLog:
        """What changes from now on; one log for all who ask."""
        with self.lock:
            if self._log is None:
                self._log = KeyLog(self.lock)
            return self._log

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index; a name that is taken is an error."""
        with self.lock:
            if name in self._functions:
                raise ValueError(f"indexer conflict: {name}")
            self._functions = {**self._functions, name: function}  # `save` may have those of before

    def get(self, key: str) -> T | None:
        with self.lock:
            return self._objects.get(key)

    def get_many(self, keys: Iterable[str]) -> list[T | None]:
        """Return the object of each key, or None."""
        with self.lock:
            return list(map(self._objects.get, keys))

    def items(self) -> dict[str, T]:
        """Return a copy of key to object."""
        with self.lock:
            return self._objects.copy()

    def values(self) -> list[T]:
        """Return every object, in the order in which they came."""
        with self.lock:
            return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[T]:
        """Return the objects that have `value` in the index `name`.

        Raises
        ------
        KeyError
            There is no such index.
        """
        return list(self.items_by_index(name, value).values())

    def items_by_index(self, name: str, value: str) -> dict[str, T]:
        """Return a copy of key to object, as `by_index`."""
        with self.lock:
            return self._index(name).get(value, {}).copy()

    def list_index_func_values(self, name: str) -> list[str]:
        """Return the values of the index `name` that some object has.

        Raises
        ------
        KeyError
            There is no such index.
        """
        with self.lock:
            return list(self._index(name))

    def _index(self, name: str) -> dict[str, dict[str, T]]:
        if name not in self._functions:
            raise KeyError(f"Index with name {name} does not exist")
        if name not in self._indexes:
            self._indexes[name] = {}
            for key, obj in self._objects.items():
                self._enter(name, key, None, obj)
        return self._indexes[name]

    def count(self, name: str, value: str) -> int:
        """How many objects `by_index` would return."""
        with self.lock:
            return len(self._index(name).get(value, ()))

    def put(self, key: str, obj: T) -> T | None:
        """Store an object; returns what was there."""
        with self.lock:
            if self._is_saved:
                self._own()
            old = self._objects.get(key)
            self._objects[key] = obj
            if self._log is not None:
                self._log.append(key)
            for name in self._indexes:
                self._enter(name, key, old, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Take an object out; returns it, if it was there."""
        with self.lock:
            if self._is_saved:
                self._own()
            old = self._objects.pop(key, None)
            if self._log is not None:
                self._log.append(key)
            for name in self._indexes:
                self._enter(name, key, old, None)
        return old

    def replace(self, objects: dict[str, T]) -> None:
        """Hold these objects and no others."""
        with self.lock:
            self._objects, self._indexes, self._is_saved = objects, {}, False
            if self._log is not None:
                self._log.forget()

    def _enter(self, name: str, key: str, old: T | None, new: T | None) -> None:
        index, function = self._indexes[name], self._functions[name]
        values = () if new is None else tuple(function(new))
        for value in () if old is None else function(old):
            if value not in values:
                del index[value][key]
                if not index[value]:
                    del index[value]
        if new is not None:
            for value in values:
                index.setdefault(value, {})[key] = new
