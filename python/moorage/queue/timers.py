"""When the two timers of the queue fire: upstream's run in threads, these when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from .places import Places
from .queued_pod_info import MICROSECONDS, microseconds

NEVER = 1 << 62
FLUSH_PERIOD = 30 * MICROSECONDS
MAX_UNSCHEDULABLE = 5 * 60 * MICROSECONDS


class Timers:
    """Pods that back off are looked at at each whole second, unschedulable ones every 30 seconds from the
    beginning; times here are whole microseconds."""

    def __init__(self, places: Places, began: float) -> None:
        self._places = places
        self._began = self._looked_at_backoff = self._looked_at_left_over = microseconds(began)

    def save(self) -> object:
        """When the timers last fired, for `undo`."""
        return self._looked_at_backoff, self._looked_at_left_over

    def undo(self, saved: object) -> None:
        """Be as at `save`."""
        self._looked_at_backoff, self._looked_at_left_over = cast("tuple[int, int]", saved)

    def backoff(self) -> int:
        """When the first timer will next move a pod."""
        end = self._places.backoff.next_end()
        if end is None:
            return NEVER
        return (max(end, self._looked_at_backoff) // MICROSECONDS + 1) * MICROSECONDS

    def left_over(self, gated: bool) -> int:
        """When the second one will next move a pod; or (`gated`) find that time is up for a gated one, which
        it does not move."""
        oldest = self._places.unschedulable.oldest(gated)
        if oldest is None:
            return NEVER
        after = max(microseconds(oldest) + MAX_UNSCHEDULABLE, self._looked_at_left_over) - self._began
        return self._began + (after // FLUSH_PERIOD + 1) * FLUSH_PERIOD

    def until(self, now: float, gated: bool) -> Iterator[tuple[float, bool]]:
        """The times up to `now` at which a timer has something to do, in seconds, and whether it is the first
        one. What there is to do then is done before the next time is asked for."""
        end = microseconds(now)
        while (at := min(self.backoff(), self.left_over(gated))) <= end:
            is_backoff = at == self.backoff()
            if is_backoff:
                self._looked_at_backoff = at
            else:
                self._looked_at_left_over = at
            yield at / MICROSECONDS, is_backoff
        self._looked_at_backoff = max(self._looked_at_backoff, end)
        self._looked_at_left_over = max(self._looked_at_left_over, end)
