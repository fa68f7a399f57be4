"""Times of the queue, and the names of its places."""

from __future__ import annotations

from moorage._core.services.queued_pods import Place

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


QUEUES = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.ERROR_BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
}
"""Names of the places in error messages."""
