"""A limit of requests per second (client-go v0.36, util/flowcontrol: a bucket of tokens)."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from threading import Lock


class RateLimit:
    """Allows a number of requests per second, and some at once. Thread-safe.

    Parameters
    ----------
    qps : float
        Requests per second; a negative number for no limit.
    burst : int
        Requests at once after a pause.
    clock : callable
        Returns seconds.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps, self._burst, self._clock = qps, burst, clock
        self._tokens, self._at = float(burst), clock()
        self._lock = Lock()

    def delay(self) -> float:
        """Take a token, and return the seconds to wait before the request may be sent."""
        if self._qps < 0:
            return 0.0
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps) - 1.0
            self._at = now
            return max(0.0, -self._tokens / self._qps)

    def waiting(self) -> int:
        """Return how many requests wait."""
        with self._lock:
            return max(0, ceil(-self._tokens - (self._clock() - self._at) * self._qps))
