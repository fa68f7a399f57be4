"""QueuedPodInfo: a pod in the scheduling queue, and what the queue knows of it."""

from __future__ import annotations

from enum import Enum

import msgspec

from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import UnitKey

NO_PLUGINS: frozenset[str] = frozenset()
MICROSECONDS = 1_000_000


def microseconds(seconds: float) -> int:
    """Whole microseconds: exact for any time that was written with at most six decimals, wall time included,
    so that sums and comparisons of times lose nothing."""
    return round(seconds * MICROSECONDS)


class Place(Enum):
    """Where in the queue a pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"

    __hash__ = object.__hash__  # members are alone of their kind; Enum's own is slow


QUEUES = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.ERROR_BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
}
"""What errors call the places."""


class QueuedPodInfo(msgspec.Struct, eq=False, gc=False):
    """A pod in the queue (kube-scheduler v1.36, framework/types.go). It may be subclassed.

    Attributes
    ----------
    pod : Pod
    timestamp : float
        Seconds; when the pod came to the queue, or last came back to it.
    attempts : int
        How often it was popped.
    unschedulable_count, consecutive_errors_count : int
        Attempts that ended in a rejection; in an error, since the last rejection. Backoff grows with them.
    initial_attempt_timestamp : float or None
        When it first entered the active queue.
    unschedulable_plugins, pending_plugins : frozenset of str
        Who rejected its last attempt or keeps it out of the queue; those that only asked to wait are in both.
    gating_plugin : str
        Whose PreEnqueue keeps it out; "" where none does.
    was_flushed : bool
        It was moved because it had been unschedulable for too long.
    place : Place or None
        None: it is not in the queue. The queue's own, as what follows.
    order : int
        Number of its entry into that place.
    until : int
        End of its backoff in microseconds, where that was computed; 0 where not.
    unit : tuple of str, or None
        Namespace and name of the group that it waits with.
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

    def take_over(self, other: QueuedPodInfo) -> None:
        """Be as another entry of the pod."""
        for field in self.__struct_fields__:
            setattr(self, field, getattr(other, field))

    @property
    def rejectors(self) -> frozenset[str]:
        """Unschedulable and pending plugins."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins
