"""Whether this scheduler may bind: its Lease is renewed, or counts as lost."""

from __future__ import annotations

from collections.abc import Callable

from .leader_lease import LeaderLease


class LostLeaseError(Exception):
    """Another scheduler may lead now, so this one must not bind any more."""


class Election:
    """When to renew a Lease, and when it counts as lost.

    One thread renews, any may ask.

    Parameters
    ----------
    renew_deadline, retry_period : float
        Seconds after the last renewal when the Lease counts as lost, and between the beginnings of two
        attempts.
    clock : callable
        Returns seconds.

    Attributes
    ----------
    is_leader : bool
        Whether the Lease was held at the last attempt. It may have run out since; see `holds`.
    """

    def __init__(
        self, lease: LeaderLease, renew_deadline: float, retry_period: float, clock: Callable[[], float]
    ) -> None:
        self.lease, self._deadline, self._retry_period = lease, renew_deadline, retry_period
        self._clock = clock
        self._renewed = self._tried = -float("inf")
        self._is_over = False
        self.is_leader = False

    def step(self) -> None:
        """Acquire or renew the Lease if it is time to.

        Raises
        ------
        LostLeaseError
            See `check`.
        """
        now = self._clock()
        if now >= self._tried + self._retry_period:
            self._tried = now
            if self.lease.try_to_hold():
                self._renewed, self.is_leader = now, True
        self.check()

    def pause(self) -> float:
        """Return the seconds until the next attempt: none after one that took longer than `retry_period`."""
        return max(0.0, self._tried + self._retry_period - self._clock())

    def holds(self) -> bool:
        """Whether no other candidate can lead now."""
        if self._is_over:
            return False
        is_taken = self.lease.holder not in ("", self.lease.identity)
        return self.is_leader and not is_taken and self._clock() - self._renewed < self._deadline

    def check(self) -> None:
        """Do nothing while the Lease is held, or was never held.

        Raises
        ------
        LostLeaseError
            The Lease was not renewed in time, or another candidate has it.
        """
        if self._is_over or (self.is_leader and not self.holds()):
            raise LostLeaseError("leaderelection lost")

    def is_overdue(self, tolerance: float) -> bool:
        """Whether the Lease is not renewed any more, and this process should long have ended.

        Parameters
        ----------
        tolerance : float
            Seconds after the Lease has run out.
        """
        late = self._clock() - self._renewed - self.lease.duration
        return self._is_over or (self.is_leader and late > tolerance)

    def end(self) -> None:
        """Count the Lease as lost from now on: nothing renews it any more."""
        self._is_over = True
