"""Caches of volumes and claims with assumed states, which the API server has not confirmed yet
(Kubernetes v1.14, scheduler_assume_cache.go)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Any, Generic, TypeVar, cast

from moorage.objects.model.meta import Object
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.store import DeletedFinalStateUnknown, Informer
from moorage.store.informers.indexer import by_namespace
from moorage.volume.versions import parse_int64

from .claims import VolumeError

T = TypeVar("T", bound=Object)
IndexFunc = Callable[[T], Iterable[str]]

logger = logging.getLogger("moorage.volume")


class WrongTypeError(VolumeError):
    """An object has another type than expected."""

    def __init__(self, type_name: str, obj: object) -> None:
        super().__init__(f"could not convert object to type {type_name}: {obj!r}")


class ObjectNotFoundError(VolumeError):
    """A cache has no object of that name."""

    def __init__(self, type_name: str, name: str) -> None:
        super().__init__(f'could not find {type_name} "{name}"')


class ObjectNameError(VolumeError):
    """An object has no name."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"failed to get object name: {detail}")


class _Record(Generic[T]):
    """One object: its latest and its informer's state, and its index values."""

    __slots__ = ("api", "latest", "values")

    def __init__(self, obj: T, values: tuple[str, ...]) -> None:
        self.latest = self.api = obj
        self.values = values


class _Bucket(Generic[T]):
    """The records of one index value, and their cached list."""

    __slots__ = ("listed", "records", "version")

    def __init__(self) -> None:
        self.records: dict[str, _Record[T]] = {}
        self.listed: tuple[T, ...] | None = None
        self.version = 0


class AssumeCache(Generic[T]):
    """Objects by key (``namespace/name``): the informer's state and the assumed state of each.

    An assumed state ends when the informer reports a higher resource version or the object's deletion, or by
    `restore`. An event with the same resource version changes nothing. All methods are thread-safe.

    Parameters
    ----------
    informer : Informer or None
        Its events fill the cache; without one, the caller calls `add`, `update` and `delete`.
    description : str
        Kind in error texts, as ``v1.PersistentVolume``.
    index_name : str
        Name of the index in log messages.
    index_func : callable
        Returns an object's index values. It is called for objects from the informer, not for assumed ones.
    """

    def __init__(
        self, informer: Informer[T] | None, description: str, index_name: str, index_func: IndexFunc[T]
    ) -> None:
        self._description = description
        self._index_name = index_name
        self._index_func = index_func
        self._records: dict[str, _Record[T]] = {}
        self._buckets: dict[str, _Bucket[T]] = {}
        self._dropped = 0
        self._lock = RLock()
        self.version = 0
        """Number of changes, assumptions included."""
        if informer is not None:
            informer.add_event_handler(_Handler(self))

    # ---- events of the informer --------------------------------------------------------------------------

    def add(self, obj: T | None) -> None:
        """Store an object of the informer and end its assumed state. Ignored if the stored state, assumed or
        not, has the same or a higher resource version, or if a resource version is not a number."""
        if obj is None:
            return
        try:
            key = self._key(obj)
            with self._lock:
                held = self._records.get(key)
                if held is not None and self._version(obj) <= self._version(held.latest):
                    return
                self._put(key, obj)
        except VolumeError as error:
            logger.error("add failed: %s", error)

    def update(self, old: T | None, new: T | None) -> None:
        """Store the new state of an object, as `add`."""
        self.add(new)

    def delete(self, obj: T | DeletedFinalStateUnknown[T] | None) -> None:
        """Remove an object and its assumed state."""
        if obj is None:
            return
        try:
            key = obj.key if isinstance(obj, DeletedFinalStateUnknown) else self._key(obj)
        except ObjectNameError as error:
            logger.error("delete failed: %s", error)
            return
        with self._lock:
            held = self._records.pop(key, None)
            if held is not None:
                self._leave(key, held.values)

    # ---- assuming ------------------------------------------------------------------------------------------

    def assume(self, obj: T) -> None:
        """Store an assumed state. Nothing changes on an error.

        Raises
        ------
        ObjectNameError, ObjectNotFoundError
            The object has no name, or the informer has no object of that name.
        VolumeError
            The stored resource version is higher, or one of the two is not a number.
        """
        key = self._key(obj)
        with self._lock:
            held = self._held(key)
            new, stored = self._version(obj), self._version(held.latest)
            if new < stored:
                what = f'{self._description} "{key}"'
                raise VolumeError(f"{what} is out of sync (stored: {stored}, assume: {new})")
            self._hold(held, obj)

    def restore(self, key: str) -> None:
        """End the assumed state of an object. Unknown keys are ignored."""
        with self._lock:
            held = self._records.get(key)
            if held is not None and held.latest is not held.api:
                self._hold(held, held.api)

    # ---- reading -------------------------------------------------------------------------------------------

    def get(self, key: str) -> T:
        """The assumed state of an object, or the informer's if there is none.

        Raises
        ------
        ObjectNotFoundError
        """
        with self._lock:
            return self._held(key).latest

    def get_api_obj(self, key: str) -> T:
        """The informer's state of an object.

        Raises
        ------
        ObjectNotFoundError
        """
        with self._lock:
            return self._held(key).api

    def list(self, index_obj: T) -> tuple[T, ...] | None:
        """The latest states of all objects that share an index value with an object, without duplicates, in
        order of insertion; None if the index function fails."""
        try:
            values = tuple(self._index_func(index_obj))
        except VolumeError as error:
            logger.error("list index error: %s", error)
            return None
        if len(values) == 1:
            return self.list_value(values[0])
        with self._lock:
            found = {key: held.latest for value in values for key, held in self._members(value)}
        return tuple(found.values())

    def list_value(self, value: str) -> tuple[T, ...]:
        """The latest states of all objects with an index value; the same tuple as long as none changes."""
        with self._lock:
            bucket = self._buckets.get(value)
            if bucket is None:
                return ()
            if bucket.listed is None:
                bucket.listed = tuple([held.latest for held in bucket.records.values()])
            return bucket.listed

    def version_of(self, value: str) -> int:
        """A version of the result of `list_value`: it increases with each change, sometimes without one."""
        with self._lock:
            bucket = self._buckets.get(value)
            return self._dropped if bucket is None else bucket.version

    # ---- within --------------------------------------------------------------------------------------------

    def _key(self, obj: object) -> str:
        if not isinstance(obj, Object):
            raise ObjectNameError("object has no meta: object does not implement the Object interfaces")
        return obj.key

    def _version(self, obj: T) -> int:
        text = obj.metadata.resource_version
        try:
            return parse_int64(text)
        except ValueError as error:
            raise VolumeError(
                f'error parsing ResourceVersion "{text}" for {self._description} "{obj.key}": {error}'
            ) from error

    def _held(self, key: str) -> _Record[T]:
        held = self._records.get(key)
        if held is None:
            raise ObjectNotFoundError(self._description, key)
        return held

    def _members(self, value: str) -> Iterable[tuple[str, _Record[T]]]:
        bucket = self._buckets.get(value)
        return () if bucket is None else bucket.records.items()

    def _put(self, key: str, obj: T) -> None:
        values = tuple(dict.fromkeys(self._index_func(obj)))
        held = self._records.get(key)
        if held is not None:
            self._leave(key, tuple(value for value in held.values if value not in values))
        record = self._records[key] = _Record(obj, values)
        for value in values:
            self._buckets.setdefault(value, _Bucket()).records[key] = record
        self._touch(values)

    def _leave(self, key: str, values: tuple[str, ...]) -> None:
        self._touch(values)
        for value in values:
            bucket = self._buckets[value]
            del bucket.records[key]
            if not bucket.records:
                del self._buckets[value]
                self._dropped = self.version

    def _hold(self, held: _Record[T], obj: T) -> None:
        held.latest = obj
        self._touch(held.values)

    def save(self) -> object:
        """The states of all objects, for `undo`."""
        with self._lock:
            records = {key: (one.api, one.latest, one.values) for key, one in self._records.items()}
            return self.version, records, {value: tuple(b.records) for value, b in self._buckets.items()}

    def undo(self, saved: object) -> None:
        """Restore the states of `save`."""
        version, objects, listed = cast(tuple[int, dict[str, Any], dict[str, tuple[str, ...]]], saved)
        with self._lock:
            if version == self.version:
                return
            self.version += 1
            self._dropped = self.version
            self._records = {key: _Record(api, values) for key, (api, _, values) in objects.items()}
            for key, (_, latest, _) in objects.items():
                self._records[key].latest = latest
            self._buckets = {}
            for value, keys in listed.items():
                bucket = self._buckets[value] = _Bucket()
                bucket.records, bucket.version = {key: self._records[key] for key in keys}, self.version

    def _touch(self, values: tuple[str, ...]) -> None:
        self.version += 1
        for value in values:
            bucket = self._buckets[value]
            bucket.listed, bucket.version = None, self.version


class _Handler(Generic[T]):
    """Passes an informer's events to a cache."""

    def __init__(self, cache: AssumeCache[T]) -> None:
        self._cache = cache

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        self._cache.add(obj)

    def on_update(self, old: T, new: T) -> None:
        self._cache.update(old, new)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        self._cache.delete(obj)


class PVAssumeCache(AssumeCache[PersistentVolume]):
    """Volumes, indexed by ``spec.storageClassName``; the beta annotation is not read."""

    def __init__(self, informer: Informer[PersistentVolume] | None) -> None:
        super().__init__(informer, "v1.PersistentVolume", "storageclass", _by_class)

    def get_pv(self, name: str) -> PersistentVolume:
        """The latest state of a volume; raises as `get`, and WrongTypeError."""
        return _of_type(PersistentVolume, self._description, self.get(name))

    def get_api_pv(self, name: str) -> PersistentVolume:
        """The informer's state of a volume; raises as `get_pv`."""
        return _of_type(PersistentVolume, self._description, self.get_api_obj(name))

    def list_pvs(self, class_name: str) -> tuple[PersistentVolume, ...]:
        """The latest states of all volumes of a class, in order of insertion."""
        return self.list_value(class_name)


class PVCAssumeCache(AssumeCache[PersistentVolumeClaim]):
    """Claims, indexed by namespace."""

    def __init__(self, informer: Informer[PersistentVolumeClaim] | None) -> None:
        super().__init__(informer, "v1.PersistentVolumeClaim", "namespace", by_namespace)

    def get_pvc(self, key: str) -> PersistentVolumeClaim:
        """The latest state of a claim (``namespace/name``); raises as `get`, and WrongTypeError."""
        return _of_type(PersistentVolumeClaim, self._description, self.get(key))

    def get_api_pvc(self, key: str) -> PersistentVolumeClaim:
        """The informer's state of a claim; raises as `get_pvc`."""
        return _of_type(PersistentVolumeClaim, self._description, self.get_api_obj(key))


def _by_class(volume: Object) -> tuple[str]:
    if not isinstance(volume, PersistentVolume):
        raise VolumeError(f"object is not a v1.PersistentVolume: {volume!r}")
    return (volume.spec.storage_class_name,)


def _of_type(struct: type[T], description: str, obj: Object) -> T:
    if not isinstance(obj, struct):
        raise WrongTypeError(description, obj)
    return obj


new_assume_cache = AssumeCache
new_pv_assume_cache = PVAssumeCache
new_pvc_assume_cache = PVCAssumeCache
