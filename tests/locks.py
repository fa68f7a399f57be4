"""Whether a class holds its lock where it promises to: each of its operations is run on an object that lets
nobody touch what the lock guards without holding it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_OTHER = ThreadPoolExecutor(1, "other")
"""A thread that holds no lock."""


def is_held(lock: Any) -> bool:
    """Whether a thread holds a lock, or the lock of a condition: another one cannot take it."""
    return not _OTHER.submit(_take, lock).result(60)


def _take(lock: Any) -> bool:
    taken = lock.acquire(blocking=False)
    if taken:
        lock.release()
    return bool(taken)


def guard(one: Any, lock: Any, *attributes: str) -> set[str]:
    """Have an object look, whenever one of these attributes is read or written, whether the lock is held.

    Returns
    -------
    set of str
        The attributes that have been touched since.
    """
    touched: set[str] = set()
    kind = type(one)

    def look(name: str) -> None:
        if name in attributes:
            assert is_held(lock), f"{kind.__name__}.{name} is touched without the lock"
            touched.add(name)

    class Guarded(kind):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            look(name)
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: object) -> None:
            look(name)
            super().__setattr__(name, value)

    Guarded.__name__ = kind.__name__
    one.__class__ = Guarded
    return touched


def operations(kind: type) -> set[str]:
    """The names of the public methods and properties of a class."""
    public = [name for name in dir(kind) if not name.startswith("_")]
    return {name for name in public if not isinstance(getattr(kind, name), type | tuple | str)}


def check_locked(
    one: Any,
    lock: Any,
    attributes: Iterable[str],
    calls: dict[str, Callable[[], object]],
    exempt: Iterable[str] = (),
) -> None:
    """Run one call of every operation of an object, each of which is to touch what the lock guards, and to
    hold the lock (or the attribute of that name) meanwhile; `exempt` are those that promise nothing."""
    lock = getattr(one, lock) if isinstance(lock, str) else lock
    assert operations(type(one)) - set(exempt) == calls.keys()
    touched = guard(one, lock, *attributes)
    for name, call in calls.items():
        touched.clear()
        call()
        assert touched, f"{name} touches nothing"
        assert not is_held(lock), f"{name} keeps the lock"
