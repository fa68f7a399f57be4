"""Times of the queue, and the names of its places."""

from __future__ import annotations

from moorage._core.queue.queued_pods import Place
from moorage._core.queue.unschedulable_pods import microseconds

__all__ = ["MICROSECONDS", "QUEUES", "microseconds"]

MICROSECONDS = 1_000_000

QUEUES = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.ERROR_BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
}
"""Names of the places in error messages."""
