"""What a store holds: the objects of each kind, what happened to them, and the way back."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from moorage.objects.model.meta import Object

from .errors import not_found
from .kinds import is_namespaced
from .protocol import EventType, WatchEvent
from .watch import History

T = TypeVar("T", bound=Object)


class Save:
    """A state of a store to come back to; see `ObjectStore.save`."""

    __slots__ = ("version",)

    def __init__(self, version: int) -> None:
        self.version = version


class Table(Generic[T]):
    """The objects of one kind, by key, and what happened to them."""

    def __init__(self, struct: type[T], objects: dict[str, T], history: History[T]) -> None:
        self.objects = objects
        self.history = history
        self.namespaced = is_namespaced(struct)

    def write(self, event: WatchEvent[T]) -> None:
        """Have the objects as they are after an event."""
        if event.type == "DELETED":
            self.objects.pop(event.object.key, None)
        else:
            self.objects[event.object.key] = event.object


class Tables:
    """The tables by kind, made when first asked for, and the counter that numbers all writes.

    Parameters
    ----------
    capacity : int
        How many events of each kind can be watched back.
    """

    def __init__(self, capacity: int) -> None:
        self.version = 1
        self._capacity = capacity
        self._tables: dict[type[Object], Table[Any]] = {}
        self._saves: list[object] = []

    def __getitem__(self, struct: type[T]) -> Table[T]:
        table = self._tables.get(struct)
        if table is None:
            table = self._tables[struct] = Table(struct, {}, History(self._capacity, self._saves))
        return table

    def find(self, struct: type[T], key: str) -> T:
        """Return one object.

        Raises
        ------
        NotFoundError
        """
        found: T | None = self[struct].objects.get(key)
        if found is None:
            raise not_found(struct, key.rpartition("/")[2])
        return found

    def record(self, event: EventType, obj: T, previous: T | None, **meta: str) -> T:
        """Every write ends here: number it, do it, remember it. Returns `obj` with this metadata."""
        self.version += 1
        version = str(self.version)
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=version, **meta))
        table = self[type(obj)]
        happened = WatchEvent(event, obj, version, previous)
        try:
            table.history.append(happened)
            if event == "DELETED":
                del table.objects[obj.key]
            else:
                table.objects[obj.key] = obj
        except BaseException:  # an interrupt by a signal: what is remembered must have been done
            if table.history.last is happened:
                table.write(happened)
            raise
        return obj

    def save(self) -> Save:
        """Return a mark for `undo` or `release`."""
        mark = Save(self.version)
        self._saves.append(mark)
        return mark

    def is_open(self, mark: Save) -> bool:
        """Whether a mark was neither undone nor released."""
        return mark in self._saves

    def undo(self, mark: Save) -> None:
        """Restore everything as it was at `mark`; closes it and those within."""
        self.release(mark)
        for table in self._tables.values():
            for event in table.history.undo(mark.version):
                if event.previous is None:
                    table.objects.pop(event.object.key, None)
                else:
                    table.objects[event.object.key] = event.previous
        self.version = mark.version

    def release(self, mark: Save) -> None:
        """Close a mark, and those within, without going back."""
        del self._saves[self._saves.index(mark) :]

    def copy(self) -> Tables:
        """Return an independent copy, without watches and open marks."""
        copy = Tables(self._capacity)
        copy.version = self.version
        for struct, table in self._tables.items():
            copy._tables[struct] = Table(struct, table.objects.copy(), table.history.copy(copy._saves))
        return copy
