"""State that can be saved, restored any number of times, and taken over by a fork."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any, ClassVar, Self

from moorage.lazy import NamedTuple


class _SavedPart(NamedTuple):
    """A part of an object, and what its `save` has returned."""

    part: SavedFields
    state: object


class SavedFields:
    """An object whose state is in some of its fields.

    Attributes
    ----------
    fields : tuple of str
        Their names; ``a.b`` is a field of what the field ``a`` holds. A field that is such an object saves
        and restores itself; a list, a map or whatever else has a method `copy` is copied, and what it holds
        stays the same. A part of the compiled core that also has a method `restore` takes the state of a
        copy, and stays the same.
    maps : tuple of str
        The fields that are maps of such objects, which also save and restore themselves.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    maps: ClassVar[tuple[str, ...]] = ()
    _lock: AbstractContextManager[object] = nullcontext()

    def save(self) -> object:
        """Return the state, for `undo`."""
        with self._lock:
            maps = [getattr(self, name).items() for name in self.maps]
            return (
                [_saved(attrgetter(name)(self)) for name in self.fields],
                [{key: _saved(part) for key, part in parts} for parts in maps],
            )

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        values, maps = saved
        with self._lock:
            for name, value in zip(self.fields, values, strict=True):
                _put(self, name, _given_back(value, attrgetter(name)(self)))
            for name, parts in zip(self.maps, maps, strict=True):
                setattr(self, name, {key: _given_back(part) for key, part in parts.items()})
            self._restored()

    def copy_from(self, other: Self) -> None:
        """Take the state of another one, of whose store this one's is a clone."""
        with other._lock, self._lock:
            for name in self.maps:
                parts = getattr(other, name).items()
                setattr(self, name, {key: self._taken_over(name, part, None) for key, part in parts})
            for name in self.fields:
                theirs, mine = attrgetter(name)(other), attrgetter(name)(self)
                is_part = isinstance(theirs, SavedFields)
                _put(self, name, self._taken_over(name, theirs, mine) if is_part else _copied(theirs))
            self._restored()

    def _taken_over(self, name: str, theirs: SavedFields, mine: SavedFields | None) -> SavedFields:
        mine = self._made(name, theirs) if mine is None else mine
        mine.copy_from(theirs)
        return mine

    def _made(self, name: str, like: Any) -> SavedFields:
        """Make the part of a field that is None, or one of a map, as `copy_from` has found one there."""
        raise NotImplementedError(name)

    def _restored(self) -> None:
        """Follow `undo` or `copy_from`: all fields are set."""


def _put(obj: object, name: str, value: object) -> None:
    owner, _, last = name.rpartition(".")
    setattr(attrgetter(owner)(obj) if owner else obj, last, value)


def _saved(value: object) -> object:
    return _SavedPart(value, value.save()) if isinstance(value, SavedFields) else _copied(value)


def _given_back(saved: object, held: Any = None) -> object:
    if isinstance(saved, _SavedPart):
        saved.part.undo(saved.state)
        return saved.part
    if hasattr(saved, "restore"):
        held.restore(saved)
        return held
    return _copied(saved)


def _copied(value: Any) -> object:
    copy = getattr(value, "copy", None)
    return value if copy is None else copy()
