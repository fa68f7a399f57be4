"""What clients and servers of HTTP share: a content type, and files that are replaced while they run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

logger = logging.getLogger("moorage.serve")
T = TypeVar("T")
JSON = "application/json"
Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class Reloaded(Generic[T]):
    """Certificates and tokens are replaced while a process runs. Thread-safe.

    If the new files cannot be read, the last value stays: of a certificate and its key one is written first.

    Parameters
    ----------
    make : callable
        Reads the files, and returns the value. It is called when the value is first asked for.
    files : sequence of str
        An empty name is no file.
    """

    def __init__(self, make: Callable[[], T], files: Sequence[str]) -> None:
        self._make, self._files = make, [file for file in files if file]
        self._lock = Lock()
        self._made: list[T] = []  # empty, or the value
        self._seen: Signature = ()

    def get(self, is_stale: Callable[[T], bool] = lambda _: False) -> T:
        """Return the value.

        Parameters
        ----------
        is_stale : callable, optional
            Takes the value, and returns whether it has to be made again although no file has changed.

        Raises
        ------
        Exception
            Whatever `make` has raised, where there is no value that could be used instead.
        """
        with self._lock:
            seen = tuple(map(_signature, self._files))
            has_value = bool(self._made) and not is_stale(self._made[0])
            if has_value and seen == self._seen:
                return self._made[0]
            try:
                self._made = [self._make()]
            except Exception as error:
                if not has_value:
                    raise
                logger.warning("files could not be read again: files=%s error=%s", self._files, error)
            self._seen = seen
            return self._made[0]


def _signature(file: str) -> tuple[int, int, int] | None:
    """Return what changes with a file; None for a file that is not there."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
