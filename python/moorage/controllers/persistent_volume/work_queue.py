"""Keys that wait to be worked on, each once (client-go, util/workqueue, with one worker)."""

from __future__ import annotations

from threading import Condition
from typing import cast


class WorkQueue:
    """Keys in the order in which they came; one that waits already does not come a second time."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._closed = False
        self._changed = Condition()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str) -> None:
        """Have a key worked on."""
        with self._changed:
            if not self._closed:
                self._keys[key] = None
                self._changed.notify()

    def take(self) -> str | None:
        """The next key, or None where none waits."""
        with self._changed:
            if not self._keys:
                return None
            key = next(iter(self._keys))
            del self._keys[key]
            return key

    def save(self) -> object:
        """The keys that wait, in their order, for `undo`."""
        with self._changed:
            return self._keys.copy()

    def undo(self, saved: object) -> None:
        """Have the keys of `save` wait again, in the order of then."""
        with self._changed:
            self._keys = cast("dict[str, None]", saved).copy()

    def wait(self) -> str | None:
        """The next key, as soon as there is one; None when the queue is shut down."""
        with self._changed:
            self._changed.wait_for(lambda: self._keys or self._closed)
            return None if self._closed else self.take()

    def shut_down(self) -> None:
        """Take no more keys, and let go who waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
