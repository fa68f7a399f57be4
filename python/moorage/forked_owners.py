"""Objects whose lock another thread holds when the process forks: the child gets an error, and does not wait.

The thread is not there in the child. Its lock would be held for ever, over what it has left half done.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

from .errors import MoorageError

ABANDONED = "this process was forked while another thread used this {}: fork while none does"
_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def watch(owner: object, lock: Any) -> None:
    """Let each use of an object fail in a child that was forked while another thread held its lock."""
    _locks[owner] = lock


def _abandon() -> None:
    for owner, lock in list(_locks.items()):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            kind = type(owner)
            owner.__class__ = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": _refuse})


def _refuse(owner: object, name: str) -> Any:
    if name == "__class__":
        return type(owner)
    raise MoorageError(ABANDONED.format(type(owner).__name__))


os.register_at_fork(after_in_child=_abandon)
