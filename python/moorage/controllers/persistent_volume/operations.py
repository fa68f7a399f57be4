"""Asynchronous operations: one at a time per name, with exponential backoff after failures.

Source: apimachinery, goroutinemap with exponentialbackoff.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable, Iterator
from threading import Event, RLock, Thread
from typing import Any, TypeAlias, cast

from msgspec import Struct

INITIAL_PAUSE = 0.5
"""Seconds of backoff after the first failure."""
LONGEST_PAUSE = 122.0

Work: TypeAlias = Callable[[], Iterable[float]]
"""Makes a generator that yields the seconds to wait between its steps; an exception is a failure."""

logger = logging.getLogger("moorage.volume")


class _Pause(Struct, frozen=True):
    """The backoff of a failed operation."""

    since: float
    length: float


class Operations:
    """Asynchronous operations by name.

    Without threads, `run` runs an operation until it waits, and `run_due` continues the operations that are
    due.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: set[str] = set()
        self._pauses: dict[str, _Pause] = {}
        self._waiting: list[tuple[float, int, str, Iterator[float]]] = []
        self._sequence = 0
        self._stop: Event | None = None
        self._lock = RLock()

    def use_threads(self, stop: Event) -> None:
        """Run operations in threads from now on.

        Parameters
        ----------
        stop : threading.Event
            Ends each operation where it would wait.
        """
        self._stop = stop

    def run(self, name: str, work: Work) -> bool:
        """Start an operation.

        Parameters
        ----------
        name : str
            Name of the operation.
        work : callable
            Makes a generator that yields the seconds to wait between its steps.

        Returns
        -------
        bool
            False if an operation of this name is running, or in backoff after a failure.
        """
        with self._lock:
            pause = self._pauses.get(name)
            if name in self._running or (pause and self._clock() - pause.since <= pause.length):
                return False
            self._running.add(name)
        if self._stop is None:
            self._advance(name, _steps(work))
        else:
            arguments = name, _steps(work), self._stop
            Thread(target=self._run_in_thread, args=arguments, name=name, daemon=True).start()
        return True

    def _run_in_thread(self, name: str, steps: Iterator[float], stop: Event) -> None:
        while (wait := self._advance(name, steps)) is not None and not stop.wait(wait):
            pass

    def is_running(self, name: str) -> bool:
        """Whether an operation is running, or waits between two steps.

        Parameters
        ----------
        name : str
            Name of the operation.
        """
        return name in self._running

    @property
    def are_running(self) -> bool:
        """Whether any operation is running, or waits between two steps."""
        return bool(self._running)

    def next_due(self) -> float | None:
        """Return the time in seconds at which the next waiting operation continues; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    def run_due(self) -> int:
        """Continue the operations that are due; returns their number."""
        done = 0
        while self._waiting and self._waiting[0][0] <= self._clock():
            _, _, name, steps = heapq.heappop(self._waiting)
            self._advance(name, steps)
            done += 1
        return done

    def save(self) -> object:
        """Return the waiting and failed operations, for `undo`."""
        with self._lock:
            return self._pauses.copy(), self._waiting.copy(), self._sequence

    def undo(self, saved: object) -> None:
        """Restore the state of `save`, without threads.

        An operation that has continued since is dropped, because its steps cannot be undone; its caller can
        start it again.
        """
        with self._lock:
            pauses, waiting, self._sequence = cast(Any, saved)
            self._pauses = pauses.copy()
            self._waiting = [operation for operation in waiting if operation in self._waiting]
            heapq.heapify(self._waiting)
            self._running = {name for _, _, name, _ in self._waiting}

    def _advance(self, name: str, steps: Iterator[float]) -> float | None:
        """Run an operation until it waits; returns the seconds to wait, or None at its end."""
        try:
            wait = next(steps, None)
        except Exception as error:  # any exception is a failure of the operation
            logger.info("operation %s failed: %s", name, error)
            self._finish(name, failed=True)
            return None
        except BaseException:
            self._finish(name, failed=True)
            raise
        if wait is None:
            self._finish(name, failed=False)
        elif self._stop is None:
            self._sequence += 1
            heapq.heappush(self._waiting, (self._clock() + wait, self._sequence, name, steps))
        return wait

    def _finish(self, name: str, *, failed: bool) -> None:
        with self._lock:
            self._running.discard(name)
            pause = self._pauses.pop(name, None)
            if failed:
                length = min(2 * pause.length, LONGEST_PAUSE) if pause else INITIAL_PAUSE
                self._pauses[name] = _Pause(self._clock(), length)


def _steps(work: Work) -> Iterator[float]:
    yield from work()
