"""A work queue of keys without duplicates (client-go, util/workqueue, with one worker)."""

from __future__ import annotations

from threading import Lock
from typing import cast


class WorkQueue:
    """Keys in order of insertion; a key that is queued already is not added again. All methods are
    thread-safe."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> None:
        """Queue a key.

        Parameters
        ----------
        key : str
        """
        with self._lock:
            self._keys[key] = None

    def take(self) -> str | None:
        """Remove and return the first key; None if the queue is empty."""
        with self._lock:
            key = next(iter(self._keys), None)
            if key is not None:
                del self._keys[key]
            return key

    def save(self) -> object:
        """The queued keys in order, for `undo`."""
        with self._lock:
            return self._keys.copy()

    def undo(self, saved: object) -> None:
        """Restore the queue of `save`.

        Parameters
        ----------
        saved : object
            As returned by `save`.
        """
        with self._lock:
            self._keys = cast("dict[str, None]", saved).copy()
