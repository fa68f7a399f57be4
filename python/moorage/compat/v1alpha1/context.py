"""PluginContext: data that the plugins of one scheduling cycle share."""

from __future__ import annotations

from threading import Condition
from typing import Any

from .v1alpha1_status import FrameworkError

NotFound = "not found"

ContextKey = str
ContextData = Any


class RWMutex:
    """A lock that either several readers hold or one writer; not re-entrant, and not tied to threads.

    The order is that of Go's sync.RWMutex, without starvation: while a writer waits no reader joins those it
    waits for, and the readers that have come meanwhile go before the next writer.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0  # that hold the lock
        self._writing = False  # a writer holds the lock, or waits for the readers to leave
        self._turn = 0  # of writers that have left
        self._next_readers = 0  # that wait for this writer to leave

    def Lock(self) -> None:
        """Acquire the write lock."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing)
            self._writing = True
            self._changed.wait_for(lambda: self._readers == 0)

    def Unlock(self) -> None:
        """Release the write lock; RuntimeError where it is not held."""
        with self._changed:
            if not self._writing:
                raise RuntimeError("sync: Unlock of unlocked RWMutex")
            self._writing = False
            self._turn += 1
            self._readers += self._next_readers
            self._next_readers = 0
            self._changed.notify_all()

    def RLock(self) -> None:
        """Acquire the read lock."""
        with self._changed:
            if not self._writing:
                self._readers += 1
                return
            turn = self._turn
            self._next_readers += 1  # Unlock makes it a reader
            self._changed.wait_for(lambda: self._turn != turn)

    def RUnlock(self) -> None:
        """Release the read lock; RuntimeError where it is not held."""
        with self._changed:
            if self._readers == 0:
                raise RuntimeError("sync: RUnlock of unlocked RWMutex")
            self._readers -= 1
            self._changed.notify_all()


class PluginContext(RWMutex):
    """Arbitrary data by key, shared by the plugins of one scheduling cycle.

    What one plugin stores another can read, alter or delete. Read, Write and Delete take no lock: where there
    are several threads the caller takes it first, with Lock and Unlock, or RLock and RUnlock to read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storage: dict[ContextKey, ContextData] = {}

    def Read(self, key: ContextKey) -> ContextData:
        """The data of a key; FrameworkError ``not found`` where there is none."""
        try:
            return self._storage[key]
        except KeyError:
            raise FrameworkError(NotFound) from None

    def Write(self, key: ContextKey, val: ContextData) -> None:
        """Store data under a key, in place of what was there."""
        self._storage[key] = val

    def Delete(self, key: ContextKey) -> None:
        """Delete the data of a key, if there is any."""
        self._storage.pop(key, None)


def NewPluginContext() -> PluginContext:
    """An empty context."""
    return PluginContext()
