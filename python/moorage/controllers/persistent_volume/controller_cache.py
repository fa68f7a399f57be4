"""Caches of claims and volumes that are updated by informers and by the controller's own writes
(controller/volume/persistentvolume, storeObjectUpdate and index.go)."""

from __future__ import annotations

from threading import RLock
from typing import Generic, TypeVar, cast

from moorage.objects.model.meta import Object
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.volume.binding.claims import VolumeError
from moorage.volume.binding.matching import find_matching_volume
from moorage.volume.versions import parse_int64

T = TypeVar("T", bound=Object)
Modes = tuple[str, ...]


class ControllerCache(Generic[T]):
    """Objects by key. An older resource version never replaces a newer one.

    Parameters
    ----------
    class_name : str
        What errors call such an object: ``volume`` or ``claim``.
    """

    def __init__(self, class_name: str) -> None:
        self.class_name = class_name
        self._objects: dict[str, T] = {}
        self._lock = RLock()

    def get(self, key: str) -> T | None:
        """The object of a key, or None."""
        with self._lock:
            return self._objects.get(key)

    def list(self) -> list[T]:
        """All objects."""
        with self._lock:
            return list(self._objects.values())

    def store(self, obj: T) -> bool:
        """Store an object; False if a newer version is stored. An equal version is accepted, so that a resync
        synchronizes every object.

        Raises
        ------
        VolumeError
            There is such an object, and one of the two versions is no number.
        """
        with self._lock:
            held = self._objects.get(obj.key)
            if held is not None:
                new = self._version(obj, "ResourceVersion")
                if self._version(held, "old ResourceVersion") > new:
                    return False
            self._put(obj, held)
        return True

    def remove(self, key: str) -> T | None:
        """Remove an object; returns it, or None."""
        with self._lock:
            return self._objects.pop(key, None)

    def save(self) -> object:
        """All objects, for `undo`."""
        with self._lock:
            return self._objects.copy()

    def undo(self, saved: object) -> None:
        """Restore the objects of `save` in their order."""
        with self._lock:
            self._objects = cast("dict[str, T]", saved).copy()

    def _put(self, obj: T, held: T | None) -> None:
        self._objects[obj.key] = obj

    def _version(self, obj: T, what: str) -> int:
        text = obj.metadata.resource_version
        try:
            return parse_int64(text)
        except ValueError as error:
            raise VolumeError(
                f'Error parsing {what} "{text}" of {self.class_name} "{obj.key}": {error}'
            ) from error


class VolumeCache(ControllerCache[PersistentVolume]):
    """Volumes by name and by access modes."""

    def __init__(self) -> None:
        super().__init__("volume")
        self._by_modes: dict[Modes, dict[str, PersistentVolume]] = {}

    def remove(self, key: str) -> PersistentVolume | None:
        with self._lock:
            held = super().remove(key)
            if held is not None:
                self._leave(held)
        return held

    def undo(self, saved: object) -> None:
        with self._lock:
            super().undo(saved)
            self._by_modes = {}
            for volume in self._objects.values():
                self._enter(volume)

    def best_match(self, claim: PersistentVolumeClaim, delay_binding: bool) -> PersistentVolume | None:
        """Find the volume that a claim is to be bound to.

        Parameters
        ----------
        claim : PersistentVolumeClaim
        delay_binding : bool
            As in `find_matching_volume`.

        Returns
        -------
        PersistentVolume or None

        Volumes that offer fewer access modes beyond those asked for go before smaller ones; of equals, the
        first by name (upstream's order is that of a random map).
        """
        asked = set(claim.spec.access_modes)
        for modes in self._sets_with(asked):
            with self._lock:
                volumes = [volume for _, volume in sorted(self._by_modes.get(modes, {}).items())]
            found = find_matching_volume(claim, volumes, None, (), delay_binding)
            if found is not None:
                return found
        return None

    def _sets_with(self, asked: set[str]) -> list[Modes]:
        with self._lock:
            sets = [modes for modes in self._by_modes if asked <= set(modes)]
        return sorted(sets, key=lambda modes: (len(modes), modes))

    def _put(self, obj: PersistentVolume, held: PersistentVolume | None) -> None:
        if held is not None:
            self._leave(held)
        super()._put(obj, held)
        self._enter(obj)

    def _enter(self, volume: PersistentVolume) -> None:
        self._by_modes.setdefault(_modes(volume), {})[volume.name] = volume

    def _leave(self, held: PersistentVolume) -> None:
        same = self._by_modes[_modes(held)]
        del same[held.name]
        if not same:
            del self._by_modes[_modes(held)]


def _modes(volume: PersistentVolume) -> Modes:
    return tuple(sorted(set(volume.spec.access_modes)))
