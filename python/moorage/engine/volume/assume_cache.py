"""Caches of volumes and claims with assumed states that the API server has not confirmed yet.

Source: Kubernetes v1.14, scheduler_assume_cache.go.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from threading import RLock
from typing import ClassVar, Generic, TypeVar

from moorage._core.base.indexed_objects import Reader, new_states
from moorage._core.base.watch_events import Notice
from moorage.kube import Object, PersistentVolume, PersistentVolumeClaim
from moorage.saved_fields import SavedFields
from moorage.short_repr import ShortRepr
from moorage.store import DeletedFinalStateUnknown, Indexer, Informer
from moorage.store.indexer import by_namespace

from .claims import VolumeError, volume_class

T = TypeVar("T", bound=Object)
IndexFunc = Callable[[T], Iterable[str]]

_DIGITS = re.compile(r"[+-]?[0-9]+")
_SAFE_DIGITS = 19  # any number with fewer digits fits in 64 bits

logger = logging.getLogger("moorage.volume")


class WrongTypeError(VolumeError):
    """An object has an unexpected type."""

    def __init__(self, type_name: str, obj: object) -> None:
        super().__init__(f"could not convert object to type {type_name}: {obj!r}")


class ObjectNotFoundError(VolumeError):
    """A cache has no object with a name."""

    def __init__(self, type_name: str, name: str) -> None:
        super().__init__(f'could not find {type_name} "{name}"')


class ObjectNameError(VolumeError):
    """An object has no name."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"failed to get object name: {detail}")


class AssumeCache(ShortRepr, SavedFields, Generic[T]):
    """Objects by key (``namespace/name``): the informer's state and the assumed state of each.

    An assumed state ends when the informer reports a higher resource version or the object's deletion, or by
    `restore`. An event with the same resource version changes nothing. All methods are thread-safe.

    Parameters
    ----------
    informer : Informer or None
        Its events fill the cache; without an informer, the caller calls `add` and `remove`.
    description : str
        Kind in error messages, for example ``v1.PersistentVolume``.
    index_name : str
        Name of the index. "": there is none, and objects cannot be listed.
    index_func : callable or None
        Returns an object's index values. It is called for objects from the informer, not for assumed ones.
    """

    shows = "{0.description}, {0._objects}"

    fields: ClassVar[tuple[str, ...]] = ("_objects", "_assumed")

    def __init__(
        self,
        informer: Informer[T] | None,
        description: str,
        index_name: str,
        index_func: IndexFunc[T] | None,
    ) -> None:
        self.description = description
        self._index_name = index_name
        self._index_func = index_func
        self._objects: Indexer[T] = Indexer({index_name: index_func} if index_name and index_func else {})
        if index_name and index_func:
            self._objects.by_index(index_name, "")  # builds the index in order of insertion
        self._assumed: dict[str, T] = {}
        self._lock = RLock()
        if informer is not None:
            informer.add_event_handler(self)

    # ---- events of the informer --------------------------------------------------------------------------

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        """Handle the creation of an object: store it (see `add`).

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object is from the informer's first list; not used.
        """
        self.add(obj)

    def on_update(self, old: T, new: T) -> None:
        """Handle the update of an object: store its new state (see `add`).

        Parameters
        ----------
        old : Object
            The object before the update; not used.
        new : Object
            The object after the update.
        """
        self.add(new)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        """Handle the deletion of an object: remove it and its assumed state.

        Parameters
        ----------
        obj : Object or DeletedFinalStateUnknown
            The deleted object.
        """
        self.remove(obj.key)

    def on_run(self, notices: Iterable[Notice[T]]) -> int:
        """Store the leading objects that are new or changed (see `RunHandler` and `add_all`).

        Returns
        -------
        int
            Their number.
        """
        received = new_states(notices)
        self.add_all(received)
        return len(received)

    def add(self, obj: T) -> bool:
        """Store an object of the informer and end its assumed state.

        The object is ignored if the stored state, assumed or not, has the same or a higher resource version,
        or if a resource version is not a number.

        Parameters
        ----------
        obj : Object
            State reported by the informer.

        Returns
        -------
        bool
            Whether it was stored.
        """
        return self.add_all((obj,)) > 0

    def add_all(self, objects: Iterable[T]) -> int:
        """Store objects of the informer, one after the other; see `add`.

        Returns
        -------
        int
            How many were stored.
        """
        is_safe = not self._index_name or self._index_func in (None, by_namespace)
        stored, index = 0, None if is_safe else self._index_func  # what may raise is asked first
        with self._lock:
            assumed, reported, given = self._assumed, self._objects, list(objects)
            keys: list[str | None] = []
            if index is None:
                keys = reported.put_newer(given, assumed)
                self._observe_all(keys, given)
                stored += len(keys) - keys.count(None)
            for obj in given[len(keys) :]:
                try:
                    key = obj.key if isinstance(obj, Object) else self._key(obj)
                    known = assumed.get(key) or reported.get(key)
                    if known is not None and not self._is_newer(obj, known):
                        continue
                    if index is not None:
                        tuple(index(obj))  # an error is raised before anything is stored
                    reported.put(key, obj)
                except VolumeError as error:
                    logger.error("add failed: %s", error)
                    continue
                if assumed:
                    assumed.pop(key, None)
                self._observe(key, obj)
                stored += 1
        return stored

    def _observe(self, key: str, obj: T | None) -> None:
        """Follow a change to a state that the informer reported; None: the object is gone."""

    def _observe_all(self, keys: Iterable[str | None], objects: Iterable[T]) -> None:
        """Follow the changes of several objects; None stands for the key of one that has not changed."""
        for key, obj in zip(keys, objects, strict=False):
            if key is not None:
                self._observe(key, obj)

    def remove(self, key: str) -> T | None:
        """Remove an object and its assumed state.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name without a namespace.

        Returns
        -------
        Object or None
            The latest state; None for an unknown key.
        """
        with self._lock:
            obj = self._objects.remove(key)
            return self._assumed.pop(key, obj)

    # ---- assuming ------------------------------------------------------------------------------------------

    def assume(self, obj: T) -> None:
        """Store an assumed state. Nothing changes on an error.

        Parameters
        ----------
        obj : Object
            A state that is at least as new as the stored one.

        Raises
        ------
        ObjectNameError, ObjectNotFoundError
            The object has no name, or the informer has no object of that name.
        VolumeError
            The stored resource version is higher, or one of the two is not a number.
        """
        key = self._key(obj)
        with self._lock:
            held = self.get(key)
            new, stored = self._version(obj), self._version(held)
            if new < stored:
                about = f'{self.description} "{key}"'
                raise VolumeError(f"{about} is out of sync (stored: {stored}, assume: {new})")
            self._assumed[key] = obj

    def restore(self, key: str) -> None:
        """End the assumed state of an object. Unknown keys are ignored.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name without a namespace.
        """
        with self._lock:
            self._assumed.pop(key, None)

    # ---- reading -------------------------------------------------------------------------------------------

    def find(self, key: str) -> T | None:
        """Return the assumed state of an object, or the informer's state if there is none.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name without a namespace.

        Returns
        -------
        Object or None
            None for an unknown key.
        """
        with self._lock:
            return self._assumed.get(key) or self._objects.get(key)

    def reader(self) -> Reader:
        """Return what reads the states for the core, until the next `undo` or `copy_from`."""
        with self._lock:
            return self._objects.reader(self._assumed)

    def get(self, key: str) -> T:
        """Return the assumed state of an object, or the informer's state if there is none.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name without a namespace.

        Raises
        ------
        ObjectNotFoundError
            The key is unknown.
        """
        latest = self.find(key)
        if latest is None:
            raise ObjectNotFoundError(self.description, key)
        return latest

    def get_api_obj(self, key: str) -> T:
        """Return the informer's state of an object.

        Parameters
        ----------
        key : str
            ``namespace/name``, or the name without a namespace.

        Raises
        ------
        ObjectNotFoundError
            The key is unknown.
        """
        reported = self._objects.get(key)
        if reported is None:
            raise ObjectNotFoundError(self.description, key)
        return reported

    def index_values(self) -> list[str]:
        """Return the index values that some object has."""
        return self._objects.list_index_func_values(self._index_name)

    def list(self, index_obj: T) -> tuple[T, ...] | None:
        """Return the latest states of all objects that share an index value with an object.

        Parameters
        ----------
        index_obj : Object
            An object, which need not be in the cache.

        Returns
        -------
        tuple of Object or None
            Without duplicates, in order of insertion; None if there is no index, or its function fails. The
            log says why.
        """
        if self._index_func is None or not self._index_name:
            logger.error("list index error: Index with name %s does not exist", self._index_name)
            return None
        try:
            values = tuple(self._index_func(index_obj))
        except VolumeError as error:
            logger.error("list index error: %s", error)
            return None
        with self._lock:
            return tuple({obj.key: obj for value in values for obj in self.list_value(value)}.values())

    def list_value(self, value: str) -> tuple[T, ...]:
        """Return the latest states of all objects with an index value, in order of insertion.

        Parameters
        ----------
        value : str
            An index value.
        """
        with self._lock:
            objects = self._objects.items_by_index(self._index_name, value)
            objects.update((key, obj) for key, obj in self._assumed.items() if key in objects)
        return tuple(objects.values())

    # ---- within --------------------------------------------------------------------------------------------

    def _key(self, obj: object) -> str:
        if not isinstance(obj, Object):
            raise ObjectNameError("object has no meta: object does not implement the Object interfaces")
        return obj.key

    def _is_newer(self, obj: T, known: T) -> bool:
        """Whether a state has a higher resource version than another."""
        new, old = obj.metadata.resource_version, known.metadata.resource_version
        if len(new) == len(old) < _SAFE_DIGITS and (both := new + old).isascii() and both.isdigit():
            return new > old
        return self._version(obj) > self._version(known)

    def _version(self, obj: T) -> int:
        text = obj.metadata.resource_version
        try:
            return parse_int64(text)
        except ValueError as error:
            raise VolumeError(
                f'error parsing ResourceVersion "{text}" for {self.description} "{obj.key}": {error}'
            ) from error


class PVAssumeCache(AssumeCache[PersistentVolume]):
    """Volumes, indexed by their storage class, which `volume_class` reads.

    Parameters
    ----------
    informer : Informer or None
        Informer of volumes; see `AssumeCache`.
    """

    def __init__(self, informer: Informer[PersistentVolume] | None) -> None:
        super().__init__(informer, "v1.PersistentVolume", "storageclass", _by_class)

    def get_pv(self, name: str) -> PersistentVolume:
        """Return the latest state of a volume.

        Raises
        ------
        ObjectNotFoundError, WrongTypeError
            There is no such volume.
        """
        return _of_type(PersistentVolume, self.description, self.get(name))

    def get_api_pv(self, name: str) -> PersistentVolume:
        """Return the informer's state of a volume.

        Raises
        ------
        ObjectNotFoundError, WrongTypeError
            There is no such volume.
        """
        return _of_type(PersistentVolume, self.description, self.get_api_obj(name))

    def list_pvs(self, class_name: str) -> tuple[PersistentVolume, ...]:
        """Return the latest states of all volumes of a class, in order of insertion.

        Parameters
        ----------
        class_name : str
            Name of the class; "" selects volumes without a class.
        """
        return self.list_value(class_name)


class PVCAssumeCache(AssumeCache[PersistentVolumeClaim]):
    """Claims, indexed by namespace.

    Parameters
    ----------
    informer : Informer or None
        Informer of claims; see `AssumeCache`.
    """

    def __init__(self, informer: Informer[PersistentVolumeClaim] | None) -> None:
        super().__init__(informer, "v1.PersistentVolumeClaim", "namespace", by_namespace)

    def get_pvc(self, key: str) -> PersistentVolumeClaim:
        """Return the latest state of a claim.

        Parameters
        ----------
        key : str
            ``namespace/name``.

        Raises
        ------
        ObjectNotFoundError, WrongTypeError
            There is no such claim.
        """
        return _of_type(PersistentVolumeClaim, self.description, self.get(key))

    def get_api_pvc(self, key: str) -> PersistentVolumeClaim:
        """Return the informer's state of a claim.

        Parameters
        ----------
        key : str
            ``namespace/name``.

        Raises
        ------
        ObjectNotFoundError, WrongTypeError
            There is no such claim.
        """
        return _of_type(PersistentVolumeClaim, self.description, self.get_api_obj(key))


def parse_int64(text: str) -> int:
    """Parse a decimal 64-bit integer as Go's ParseInt.

    Resource versions are compared as such integers.

    Parameters
    ----------
    text : str
        Decimal digits, with an optional sign.

    Raises
    ------
    ValueError
        The text is no such integer; the message is Go's.
    """
    if len(text) < _SAFE_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    if not _DIGITS.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _by_class(volume: Object) -> tuple[str]:
    if not isinstance(volume, PersistentVolume):
        raise VolumeError(f"object is not a v1.PersistentVolume: {volume!r}")
    return (volume_class(volume),)


def _of_type(struct: type[T], description: str, obj: Object) -> T:
    if not isinstance(obj, struct):
        raise WrongTypeError(description, obj)
    return obj


new_assume_cache = AssumeCache
new_pv_assume_cache = PVAssumeCache
new_pvc_assume_cache = PVCAssumeCache
