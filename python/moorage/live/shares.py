"""What one client may take up of a server, and one question of a twin."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from moorage.lazy import NamedTuple

TIMEOUT = 10.0
"""Seconds that a client has for the handshake, and by default for each part of a request."""
LINGER = 2.0
"""Seconds for which what follows a refused request is dropped, and a closed connection may stay open."""


class Shares:
    """Something that clients share: each may hold as much as is free, so that some is left for the next.

    One client gets half, two get a third each (Choudhury and Hahne, Dynamic queue length thresholds in a
    shared-memory packet switch, 1998). Thread-safe.

    Attributes
    ----------
    free : int
        How much of it nobody holds.
    """

    def __init__(self, size: int) -> None:
        self.free, self._held, self._lock = size, Counter[str](), Lock()

    def take(self, client: str, amount: int) -> bool:
        """Return whether the client may have so much more; then it has."""
        with self._lock:
            may_have = self._held[client] + amount <= self.free - amount
            if may_have:
                self._held[client] += amount
                self.free -= amount
            return may_have

    def give_back(self, client: str, amount: int) -> None:
        """Take so much from what the client holds; the rest stays its own."""
        with self._lock:
            self.free += amount
            self._held[client] -= amount
            if not self._held[client]:
                del self._held[client]


class Limits(NamedTuple):
    """What one question may take up.

    Attributes
    ----------
    seconds : float
        For the answer, and before it for its turn.
    memory : int
        Bytes beyond those of the parent.
    output : int
        Bytes of the answer.
    at_once : int
        Questions that are answered at the same time; others wait for their turn.
    """

    seconds: float = 60.0
    memory: int = 2 << 30
    output: int = 64 << 20
    at_once: int = 4
