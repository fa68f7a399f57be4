"""LiveScheduler: the loop of a scheduler of a real cluster, with leader election and a graceful end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import Any

from moorage.scheduler import Scheduler
from moorage.store import ApiError
from moorage.store.api import ApiClient, Connection

from .event_broadcaster import EventBroadcaster
from .leader_lease import LeaderLease
from .live_run import LiveRun

logger = logging.getLogger("moorage.serve")

IDLE = 1.0
"""Seconds at most between two looks at the clock."""
RETRY = 1.0
"""Seconds after which a step is repeated that the server has refused."""
FINISH = 10.0
"""Seconds that bindings in flight have at the end."""


class LostLeaseError(Exception):
    """Another scheduler may lead now, so this one must not bind any more."""


class Election:
    """When to renew a Lease, and when it counts as lost.

    Parameters
    ----------
    lease : LeaderLease
    renew_deadline, retry_period : float
        Seconds after the last renewal when the Lease counts as lost, and between two attempts.
    clock : callable
        Returns seconds.

    Attributes
    ----------
    is_leader : bool
    """

    def __init__(
        self, lease: LeaderLease, renew_deadline: float, retry_period: float, clock: Callable[[], float]
    ) -> None:
        self.lease, self._deadline, self.retry_period = lease, renew_deadline, retry_period
        self._clock = clock
        self._renewed = self._tried = -float("inf")
        self.is_leader = False

    def step(self) -> None:
        """Acquire or renew the Lease if it is time to.

        Raises
        ------
        LostLeaseError
            The Lease was not renewed in time, or another candidate has it.
        """
        now = self._clock()
        if now - self._tried >= self.retry_period:
            self._tried = now
            if self.lease.try_to_hold():
                self._renewed, self.is_leader = now, True
        is_taken = self.lease.holder not in ("", self.lease.identity)
        if self.is_leader and (is_taken or self._clock() - self._renewed >= self._deadline):
            self.is_leader = False
            raise LostLeaseError("leaderelection lost")


class LiveScheduler:
    """Schedules the pods of a cluster until it is stopped.

    Parameters
    ----------
    client : ApiClient
    events : Connection
        For events, so that they do not use up the requests of bindings.
    election : Election, optional
        Without one the scheduler does not wait to lead.
    clock : callable, optional
        Returns seconds: for backoff, waits on Permit and timers.
    **options
        Of `Scheduler`.

    Attributes
    ----------
    scheduler : Scheduler
    run : LiveRun
    is_synced : bool
        Whether it has seen the cluster.
    """

    def __init__(
        self,
        client: ApiClient,
        events: Connection,
        *,
        election: Election | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.client, self._election, self._clock = client, election, clock
        self.scheduler = Scheduler(client, clock=clock, **options)
        name = self.scheduler.profile.scheduler_name
        self.recorder = EventBroadcaster(events, name, client.now)
        for handle in (self.scheduler.handle, *(one.handle for one in self.scheduler.engines.values())):
            handle.recorder = self.recorder
        self.run = LiveRun(self.scheduler, client.arrivals.wake)
        self.is_synced = False

    def work(self, stop: Event) -> None:
        """Schedule until an event is set; then finish the bindings in flight, write the events that wait and
        give the Lease up.

        Parameters
        ----------
        stop : threading.Event

        Raises
        ------
        LostLeaseError
            Another scheduler may lead now. Bindings in flight have ended, and the Lease is not given up.
        """
        try:
            while not stop.is_set():
                self.step(stop)
        except LostLeaseError:
            self._finish()
            raise
        self._finish()
        if self._election is not None:
            self._election.lease.release()

    def step(self, stop: Event) -> None:
        """Do what there is to do, or wait for it.

        Parameters
        ----------
        stop : threading.Event
            Ends a wait after a refusal.
        """
        seen = self.client.arrivals.count
        if self._election is not None:
            self._election.step()
        try:
            if self._election is not None and not self._election.is_leader:
                self.scheduler.sync()  # what a leader needs to know is known when it begins to lead
                self.is_synced = True
                self.client.arrivals.wait(seen, min(IDLE, self._election.retry_period))
            else:
                has_more = self.run.step()
                self.is_synced = True
                if not has_more:
                    self.client.arrivals.wait(seen, self._idle())
        except ApiError as error:
            logger.warning("the API server: %s", error)
            stop.wait(RETRY)

    def _idle(self) -> float:
        """Return the seconds to wait for an event."""
        when = self.run.next_time()
        seconds = IDLE if when is None else min(IDLE, max(0.0, when - self._clock()))
        return seconds if self._election is None else min(seconds, self._election.retry_period)

    def _finish(self) -> None:
        if not self.run.finish(FINISH):
            logger.warning("some bindings have not ended in time")
        self.recorder.close()
