"""A work queue of keys without duplicates (client-go, util/workqueue, with one worker)."""

from __future__ import annotations

from threading import Condition
from typing import cast


class WorkQueue:
    """Keys in order of insertion; a key that is queued already is not added again."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> None:
        """Queue a key."""
        with self._changed:
            if not self._closed:
                self._keys[key] = None
                self._changed.notify()

    def take(self) -> str | None:
        """Remove and return the first key; None if the queue is empty."""
        with self._changed:
            if not self._keys:
                return None
            key = next(iter(self._keys))
            del self._keys[key]
            return key

    def save(self) -> object:
        """The queued keys in order, for `undo`."""
        with self._changed:
            return self._keys.copy()

    def undo(self, saved: object) -> None:
        """Restore the queue of `save`."""
        with self._changed:
            self._keys = cast("dict[str, None]", saved).copy()

    def wait(self) -> str | None:
        """Wait for a key and return it; None after `shut_down`."""
        with self._changed:
            self._changed.wait_for(lambda: self._keys or self._closed)
            return None if self._closed else self.take()

    def shut_down(self) -> None:
        """Accept no more keys and end all calls of `wait`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
