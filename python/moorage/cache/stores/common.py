"""What the stores of a BinderCache have in common."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import ClassVar, Self, TypeVar

from moorage._core.state import ClusterState

from ..cache_handler import CacheHandler

K = TypeVar("K")
V = TypeVar("V")


class StoreName(StrEnum):
    """The stores, in Gödel's order."""

    PDB = "PdbStore"
    RESERVATION = "ReservationStore"
    UNIT_STATUS = "UnitStatusStore"
    DELETED_MARKER = "DeletedMarkerStore"
    NODE = "NodeStore"
    POD = "PodStore"


class Undo:
    """How to take back what stores wrote while transactions are open; a Participant of the cache."""

    def __init__(self) -> None:
        self.depth = 0
        self.actions: list[Callable[[], object]] = []

    def save(self) -> int:
        self.depth += 1
        return len(self.actions)

    def undo(self, saved: object) -> None:
        assert isinstance(saved, int)
        while len(self.actions) > saved:
            self.actions.pop()()
        self.depth -= 1

    def release(self, saved: object) -> None:
        self.depth -= 1
        if not self.depth:
            self.actions.clear()

    def clone(self) -> Undo:
        return Undo()

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """``table[key] = value``."""
        if self.depth:
            if key in table:
                self.actions.append(partial(table.__setitem__, key, table[key]))
            else:
                self.actions.append(partial(table.__delitem__, key))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """``del table[key]``, if it is there."""
        if key in table:
            if self.depth:
                self.actions.append(partial(table.__setitem__, key, table[key]))
            del table[key]


class Store:
    """A part of a BinderCache that can be asked for by its name.

    Its methods are called by the cache, under its lock. The ledger and the node table of `state` are common
    to all stores; what else a store holds it writes through `undo`.
    """

    name: ClassVar[StoreName]

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        self.state = state
        self.handler = handler
        self.undo = undo

    def clone(self, state: ClusterState, undo: Undo) -> Self:
        """An independent copy over a copy of the state."""
        return type(self)(state, self.handler, undo)
