"""Writes to an API server beside the scheduling: none waits for another, but for those of the same object."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from heapq import heappop, heappush
from itertools import islice
from threading import Condition, Lock, Thread
from typing import NamedTuple, TypeVar

from prometheus_client import Histogram

from moorage.engine.framework.handle import Then, Writes, log_failure
from moorage.engine.scheduler.scheduler_metrics import exponential_buckets
from moorage.kube import Object
from moorage.store import ApiError

logger = logging.getLogger("moorage.serve")

T = TypeVar("T")

THREADS = 16
"""Writes that may begin within `PATIENCE`. So a fast server gets few connections."""
PATIENCE = 0.5
"""Seconds after which a write counts as slow: another may begin in its place. On a busy machine, 32 threads
share the interpreter for less; more of them would cost a burst half again as much processor time."""
BACKLOG, MOST = 32, 32
"""Writes that wait for each thread more than `threads`, up to so many."""
MAX_THREADS = 2000
"""Writes that are carried out at once at most, slow ones included."""


class RetryLaterError(Exception):
    """Raised by a write that is to be carried out again after some seconds; it keeps its place."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def write_durations() -> Histogram:
    """Return upstream's metric of the writes that its dispatcher carries out."""
    return Histogram(
        "scheduler_async_api_call_execution_duration_seconds",
        "Duration of writes to the API server that are carried out beside the scheduling.",
        ("call_type", "result"),
        registry=None,
        buckets=exponential_buckets(0.001, 2, 15),
    )


class Write:
    """A write of one object.

    Attributes
    ----------
    what : str
        The kind of write, for logs and metrics: upstream's names where it has one.
    about : Object
    action : callable
        Is called in a thread.
    submitted, began : float
        Seconds by the clock of the writer.
    error : Exception or None
        What it has raised.
    """

    __slots__ = ("about", "action", "began", "error", "submitted", "then", "what")

    def __init__(self, what: str, about: Object, action: Callable[[], object], then: Then | None) -> None:
        self.what, self.about, self.action, self.then = what, about, action, then
        self.submitted = self.began = 0.0
        self.error: Exception | None = None


class Pending(NamedTuple):
    """How many writes are carried out, how many wait, and the age of the oldest in seconds."""

    running: int
    waiting: int
    age: float


NOTHING = Pending(0, 0, 0.0)


class Writer(Writes):
    """Carries out writes by threads that only wait, as many as there are slow writes.

    Writes of one object (its UID) keep their order. The threads are daemons: the interpreter ends without
    them.

    Parameters
    ----------
    threads : int, optional
        See `THREADS`.
    throttled : callable, optional
        Returns how many requests wait for the limit of requests per second. They are not slow.
    clock : callable, optional
        Returns seconds.
    on_end : callable, optional
        Is called by the threads after each write whose end somebody wants to know.
    patience : float, optional
        See `PATIENCE`.

    Attributes
    ----------
    durations : Histogram
        Seconds that writes took, by what and result (success or error).
    """

    is_beside = True

    def __init__(
        self,
        threads: int = THREADS,
        *,
        throttled: Callable[[], int] = int,
        clock: Callable[[], float] = time.monotonic,
        on_end: Callable[[], object] = int,
        patience: float = PATIENCE,
        durations: Histogram | None = None,
    ) -> None:
        self._threads, self._throttled, self._clock = threads, throttled, clock
        self._on_end, self._patience = on_end, patience
        lock = Lock()
        self._changed, self._all_ended = Condition(lock), Condition(lock)
        self._of_object: dict[Hashable, deque[Write]] = {}
        self._ready = deque[Hashable]()  # objects with writes of which none is carried out
        self._later: list[tuple[float, str]] = []  # a heap of those whose first write is put off
        self._running: dict[Write, None] = {}  # in the order of their begin
        self._ended = deque[Write]()
        self._living = self._idle = self._size = 0
        self._is_closed = False
        self.durations = write_durations() if durations is None else durations

    def submit(
        self,
        what: str,
        about: Object,
        action: Callable[[], object],
        then: Then | None = None,
    ) -> None:
        """Have a write carried out by a thread; see `Writes.submit`. `collect` calls `then`."""
        write, uid = Write(what, about, action, then), about.metadata.uid
        write.submitted = self._clock()
        with self._changed:
            writes = self._of_object.setdefault(uid, deque())
            last = writes[-1] if writes else write
            if last is not write and self._replaces(write, last):
                last.action = action.after(last.action)  # type: ignore[attr-defined]
                return
            writes.append(write)
            self._size += 1
            if len(writes) == 1 and not self._is_closed:
                self._ready.append(uid)
                self._call()

    def _replaces(self, write: Write, last: Write) -> bool:
        """Whether one write can take the place of two of its object."""
        is_alike = write.what == last.what and type(write.action) is type(last.action)
        return is_alike and hasattr(write.action, "after") and last not in self._running

    def future(self, what: str, about: Object, action: Callable[[], T]) -> Future[T]:
        """Have a write carried out by a thread, whose result or exception is wanted."""
        future = Future[T]()

        def carry_out() -> None:
            try:
                future.set_result(action())
            except Exception as error:
                future.set_exception(error)

        self.submit(what, about, carry_out, lambda _: None)
        return future

    def collect(self) -> None:
        """Call `then` of the writes that have ended since the last call, in this thread."""
        while self._ended:
            write = self._ended.popleft()
            assert write.then is not None
            write.then(write.error)

    def has(self, uid: str) -> bool:
        """Whether a write of an object has not ended."""
        return uid in self._of_object

    def __len__(self) -> int:
        """Return the number of writes that have not ended."""
        return self._size

    def pending(self) -> dict[str, Pending]:
        """Return what has not ended, by what."""
        pending: dict[str, Pending] = {}
        with self._changed:
            now = self._clock()
            for write in (one for writes in self._of_object.values() for one in writes):
                of = pending.get(write.what, NOTHING)
                is_running = write in self._running
                age = max(of.age, now - write.submitted)
                pending[write.what] = Pending(of.running + is_running, of.waiting + (not is_running), age)
        return pending

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self, timeout: float) -> bool:
        """Wait until all writes have ended, and carry out no others.

        Parameters
        ----------
        timeout : float
            Seconds after which the rest is given up.

        Returns
        -------
        bool
            Whether all have ended.
        """
        with self._changed:
            self._all_ended.wait_for(lambda: not self._of_object, timeout)
            return not self._close()

    def flush(self) -> None:
        """Wait until all writes have ended."""
        with self._changed:
            self._all_ended.wait_for(lambda: not self._of_object)

    def give_up(self) -> None:
        """Carry out no more writes, and wait for none."""
        with self._changed:
            self._close()

    def _close(self) -> int:
        """End the threads that are idle; return the number of objects whose writes have not ended."""
        self._is_closed = True
        self._ready.clear()
        self._later.clear()
        self._changed.notify_all()
        return len(self._of_object)

    # ---- threads; all with the lock but `_carry_out` -------------------------------------------------------

    def _call(self) -> None:
        """Have a thread look at what is ready: one that is idle, or a new one."""
        if self._idle:
            self._changed.notify()
        elif self._living <= MAX_THREADS:
            try:
                Thread(target=self._work, name="write", daemon=True).start()
            except RuntimeError as error:  # the system allows no more
                logger.warning("writes have to wait: threads=%s error=%s", self._living, error)
            else:
                self._living += 1

    def _work(self) -> None:
        with self._changed:
            while not self._is_closed:
                pause = self._pause()
                if pause == 0.0:
                    self._do(self._begin())
                elif self._idle < self._threads:
                    self._idle += 1
                    self._changed.wait(pause)
                    self._idle -= 1
                else:
                    break
            self._living -= 1

    def _pause(self) -> float | None:
        """Return the seconds until the next write may begin; None without one."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heappop(self._later)[1])
        if not self._ready:
            return self._later[0][0] - now if self._later else None
        most = min(self._threads + len(self._ready) // BACKLOG, MOST)
        if self._throttled() >= most:
            return self._patience
        last = next(islice(reversed(self._running), most - 1, None), None)
        return 0.0 if last is None else max(0.0, last.began + self._patience - now)

    def _begin(self) -> Write:
        write = self._of_object[self._ready.popleft()][0]
        write.began = self._clock()
        self._running[write] = None
        if self._ready and not self._idle:
            self._call()
        return write

    def _do(self, write: Write) -> None:
        """Carry out a write without the lock, and begin the next one of its object."""
        self._changed.release()
        try:
            self._carry_out(write)
        finally:
            self._changed.acquire()
            self._end(write)

    def _carry_out(self, write: Write) -> None:
        try:
            write.action()
        except BaseException as failure:  # SystemExit as well: it would end the thread
            error = failure if isinstance(failure, Exception) else RuntimeError(repr(failure))
            write.error = error
            if isinstance(error, RetryLaterError):
                return
            if not isinstance(error, ApiError):
                logger.exception("write has failed: what=%s object=%s", write.what, write.about.key)
            elif write.then is None:
                log_failure(write.what, write.about, error)

    def _end(self, write: Write) -> None:
        uid = write.about.metadata.uid
        del self._running[write]
        if isinstance(write.error, RetryLaterError):
            if not self._is_closed:
                heappush(self._later, (self._clock() + write.error.seconds, uid))
                self._changed.notify()
            write.error = None
            return
        writes = self._of_object[uid]
        writes.popleft()
        self._size -= 1
        if not writes:
            del self._of_object[uid]
        elif not self._is_closed:
            self._ready.append(uid)
        seconds = self._clock() - write.began
        self.durations.labels(write.what, "error" if write.error else "success").observe(seconds)
        if write.then is not None:
            self._ended.append(write)
            self._on_end()
        if not self._of_object:
            self._all_ended.notify_all()
