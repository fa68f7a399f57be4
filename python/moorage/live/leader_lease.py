"""Leader election by a Lease (coordination.k8s.io/v1), as client-go v0.36 (tools/leaderelection) does it.

A Lease is written by PUT: the role of kube-scheduler allows no PATCH.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from moorage.store import AlreadyExistsError, ApiError, ConflictError, NotFoundError

from .client import Connection
from .client.connection import read_answer
from .writer import stamp

logger = logging.getLogger("moorage.serve")


class _LeaseRecord(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    kind: Literal["Lease"]
    metadata: dict[str, Any]
    spec: _LeaseRecord = _LeaseRecord()


_LEASE = msgspec.json.Decoder(_Lease)


class LeaderLease:
    """One candidate for a Lease.

    Others' clocks are not trusted: a Lease has expired if its record has not changed for its duration, as
    this candidate's own clock shows.

    Parameters
    ----------
    connection : Connection
        Of its own, with a timeout that leaves time for a second attempt before the Lease runs out.
    identity : str
        The candidate's, unique among all.
    duration : float
        Seconds without a renewal after which others may take the Lease.
    clock, now : callable
        Return seconds: those that measure, and those since 1970 for the fields of the Lease.

    Attributes
    ----------
    holder : str
        The holder when the Lease was last read; "" for none.
    """

    def __init__(  # noqa: PLR0913
        self,
        connection: Connection,
        identity: str,
        *,
        namespace: str = "kube-system",
        name: str = "kube-scheduler",
        duration: float = 15.0,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.connection, self.identity, self.duration = connection, identity, duration
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"
        self._meta = {"name": name, "namespace": namespace}
        self._clock, self._now = clock, now
        self._seen: Any = None
        self._seen_at = 0.0
        self.holder = ""

    def try_to_hold(self) -> bool:
        """Acquire the Lease, or renew it.

        Returns
        -------
        bool
            Whether this candidate holds it now. False as well where the server is away or has refused.
        """
        try:
            return self._try()
        except ApiError as error:
            logger.warning("lease request has failed: lease=%s error=%s", self._path, error)
            return False

    def release(self) -> None:
        """Give the Lease up, so that another candidate can have it at once. An error is ignored."""
        try:
            lease = self._read()
            if lease is not None and lease["spec"].get("holderIdentity") == self.identity:
                now = stamp(self._now())
                spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
                transitions = lease["spec"].get("leaseTransitions", 0)
                self._put(lease, spec | {"leaseTransitions": transitions})
        except ApiError:
            return
        self.holder = ""

    def _try(self) -> bool:
        now, lease = stamp(self._now()), self._read()
        spec: dict[str, Any] = {"holderIdentity": self.identity, "leaseDurationSeconds": int(self.duration)}
        spec["renewTime"] = now
        try:
            if lease is None:
                spec |= {"acquireTime": now, "leaseTransitions": 0}
                value = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self._meta}
                body = msgspec.json.encode(value | {"spec": spec})
                self.connection.request("POST", self._collection, None, body)
            else:
                record = lease["spec"]
                if record != self._seen:
                    self._seen, self._seen_at = record, self._clock()
                self.holder = record.get("holderIdentity") or ""
                is_ours = self.holder == self.identity
                if (
                    self.holder
                    and not is_ours
                    and self._clock()
                    < self._seen_at + float(record.get("leaseDurationSeconds") or self.duration)
                ):
                    return False
                spec["acquireTime"] = record.get("acquireTime", now) if is_ours else now
                spec["leaseTransitions"] = (record.get("leaseTransitions") or 0) + (not is_ours)
                self._put(lease, spec)
        except (AlreadyExistsError, ConflictError):
            return False  # another candidate was faster
        self.holder = self.identity
        return True

    def _read(self) -> dict[str, Any] | None:
        try:
            body = self.connection.request("GET", self._path)
        except NotFoundError:
            return None
        read_answer(_LEASE, body)  # what is read below has its type
        lease: dict[str, Any] = msgspec.json.decode(body)
        lease.setdefault("spec", {})
        return lease

    def _put(self, lease: dict[str, Any], spec: dict[str, Any]) -> None:
        self.connection.request("PUT", self._path, None, msgspec.json.encode(lease | {"spec": spec}))


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
