"""Objects whose lock another thread holds when the process forks: the child gets an error, and does not wait.

The thread is not there in the child. Its lock would be held for ever, over what it has left half done.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any
from weakref import ref

from .errors import MoorageError

ABANDONED = "this process was forked while another thread used this {}: fork while none does"
_watched: list[tuple[ref[Any], Any]] = []
"""Owners and their locks. No callback drops an owner that is freed: an interrupt within one would be lost."""
_room = 64
_changes = Lock()


def watch(owner: object, lock: Any) -> None:
    """Let each use of an object fail in a child that was forked while another thread held its lock."""
    global _room
    with _changes:
        _watched.append((ref(owner), lock))
        if len(_watched) > _room:
            _watched[:] = [each for each in _watched if each[0]() is not None]
            _room = 64 + 2 * len(_watched)


def _abandon() -> None:
    _changes.release()
    for owner, lock in [(kept(), lock) for kept, lock in _watched]:
        if lock.acquire(blocking=False):
            lock.release()
        elif owner is not None:
            kind = type(owner)
            owner.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": _refuse})


def _refuse(owner: object, name: str) -> Any:
    if name == "__class__":
        return type(owner)
    raise MoorageError(ABANDONED.format(type(owner).__name__))


os.register_at_fork(before=_changes.acquire, after_in_parent=_changes.release, after_in_child=_abandon)
