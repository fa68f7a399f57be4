"""The two timers of the queue. Upstream runs them in goroutines; here they fire when the scheduler calls
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.unschedulable_pods import microseconds as microseconds

MICROSECONDS = 1_000_000
NEVER = 1 << 62
FLUSH_PERIOD = 30 * MICROSECONDS
MAX_UNSCHEDULABLE = 5 * 60 * MICROSECONDS


class Timers:
    """The next times at which the backoff timer and the unschedulable timer move pods, in whole microseconds.

    The backoff timer visits the backoff queue at each whole second. The unschedulable timer visits the
    unschedulable pods every 30 seconds from the beginning (kube-scheduler v1.36,
    backend/queue/scheduling_queue.go Run).

    Parameters
    ----------
    began : float
        Time of the beginning in seconds.
    """

    def __init__(self, queue: PodQueue, began: float) -> None:
        self._queue = queue
        self._began = self._looked_at_backoff = self._looked_at_left_over = microseconds(began)

    def save(self) -> object:
        """Return when the timers last fired, for `undo`."""
        return self._looked_at_backoff, self._looked_at_left_over

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        self._looked_at_backoff, self._looked_at_left_over = cast("tuple[int, int]", saved)

    def backoff(self) -> int:
        """Return the next time at which the backoff timer moves a pod.

        Returns
        -------
        int
            Microseconds; `NEVER` if no pod backs off.
        """
        end = self._queue.backoff.next_end()
        if end is None:
            return NEVER
        return (max(end, self._looked_at_backoff) // MICROSECONDS + 1) * MICROSECONDS

    def left_over(self, gated: bool) -> int:
        """Return the next time at which the unschedulable timer moves a pod.

        Parameters
        ----------
        gated : bool
            Whether gated pods count. Up to v1.36 the timer does not move them, but their timeout is an event
            for pods in flight; since v1.37 they are asked again.

        Returns
        -------
        int
            Microseconds; `NEVER` where no pod waits.
        """
        oldest = self._queue.oldest(gated)
        if oldest is None:
            return NEVER
        after = max(microseconds(oldest) + MAX_UNSCHEDULABLE, self._looked_at_left_over) - self._began
        return self._began + (after // FLUSH_PERIOD + 1) * FLUSH_PERIOD

    def until(self, now: float, gated: bool) -> Iterator[tuple[float, bool]]:
        """Iterate over the times at which a timer has work, up to a time.

        The caller does the work of each time before it asks for the next.

        Parameters
        ----------
        now : float
            The last time, in seconds.
        gated : bool
            As for `left_over`.

        Yields
        ------
        at : float
            Seconds.
        is_backoff : bool
            Whether the timer is the backoff timer.
        """
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
