"""QueuedPodInfo: a pod in the scheduling queue, with the results of its attempts."""

from __future__ import annotations

from enum import Enum

import msgspec

from moorage.objects import Pod, UnitKey

NO_PLUGINS: frozenset[str] = frozenset()
MICROSECONDS = 1_000_000


def microseconds(seconds: float) -> int:
    """Round a time to whole microseconds.

    Sums and comparisons of the integers are exact, for every time with at most six decimals.

    Parameters
    ----------
    seconds : float

    Returns
    -------
    int
    """
    return round(seconds * MICROSECONDS)


class Place(Enum):
    """The place of a pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"

    __hash__ = object.__hash__  # by identity: the hash of Enum is slower


QUEUES = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.ERROR_BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
}
"""Names of the places in error messages."""


class QueuedPodInfo(msgspec.Struct, eq=False, gc=False):
    """A pod in the queue (kube-scheduler v1.36, framework/types.go). It may be subclassed.

    Attributes
    ----------
    pod : Pod
    timestamp : float
        When the pod entered the queue or last returned to it, in seconds.
    attempts : int
        The number of times it was popped.
    unschedulable_count, consecutive_errors_count : int
        The number of rejections, and of errors since the last rejection. Backoff grows with them.
    initial_attempt_timestamp : float or None
        When the pod first entered the active queue, in seconds.
    unschedulable_plugins, pending_plugins : frozenset of str
        The plugins that rejected the last attempt or gate the pod; and those of them that answered Pending.
    gating_plugin : str
        The plugin whose PreEnqueue gates the pod, or "".
    was_flushed : bool
        The pod was moved because it had been unschedulable for too long.
    place : Place or None
        Set by the queue, as the attributes below. None outside the queue.
    order : int
        The number of its entry into that place.
    until : int
        The end of its backoff in microseconds; 0 where it was not computed.
    unit : tuple of str, or None
        Namespace and name of the pod group that it is tried with.
    """

    pod: Pod
    timestamp: float = 0.0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    initial_attempt_timestamp: float | None = None
    unschedulable_plugins: frozenset[str] = NO_PLUGINS
    pending_plugins: frozenset[str] = NO_PLUGINS
    gating_plugin: str = ""
    was_flushed: bool = False
    place: Place | None = None
    order: int = 0
    until: int = 0
    unit: UnitKey | None = None

    def assign(self, other: QueuedPodInfo) -> None:
        """Copy all fields of another entry of the pod.

        Parameters
        ----------
        other : QueuedPodInfo
        """
        for field in self.__struct_fields__:
            setattr(self, field, getattr(other, field))

    @property
    def rejectors(self) -> frozenset[str]:
        """Unschedulable and pending plugins."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins
