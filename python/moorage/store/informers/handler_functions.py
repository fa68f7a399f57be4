"""HandlerFunctions: an event handler made of functions, as client-go's ResourceEventHandlerFuncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from moorage.kube import Object

from .informer import DeletedFinalStateUnknown

T = TypeVar("T", bound=Object)


def last_state(deleted: T | DeletedFinalStateUnknown[T]) -> T:
    """Return the object of a deletion event, or its last known state."""
    return deleted.obj if isinstance(deleted, DeletedFinalStateUnknown) else deleted


class HandlerFunctions(Generic[T]):
    """Passes the events of an informer to functions.

    Parameters
    ----------
    add : callable
        Takes a new object.
    update : callable
        Takes the states before and after.
    delete : callable
        Takes the last state.
    """

    def __init__(
        self,
        add: Callable[[T], object],
        update: Callable[[T, T], object],
        delete: Callable[[T], object],
    ) -> None:
        self._add, self._update, self._delete = add, update, delete

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        """Pass an added object."""
        self._add(obj)

    def on_update(self, old: T, new: T) -> None:
        """Pass a changed object."""
        self._update(old, new)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        """Pass the last state of a deleted object."""
        self._delete(last_state(obj))
