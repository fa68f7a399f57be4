# cython: auto_pickle=False
"""The backoff queue: pods whose last attempt failed, until their backoff ends. Not thread-safe; the queue has
a lock.

kube-scheduler v1.36, backend/queue/backoff_queue.go.
"""

from functools import partial

from libc.math cimport sqrt
from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport Lane, QueuedPodInfo, Waiting
from moorage._core.queue.queued_pods import Place
from moorage._core.queue.unschedulable_pods cimport microseconds

cdef object SECOND = 1_000_000, BACKOFF = Place.BACKOFF


cdef class BackoffQueue(Waiting):
    """Pods by the end of their backoff.

    Pods that failed with an error have a heap of their own: they are never popped before their backoff ends.

    Parameters
    ----------
    initial, maximum : float
        The backoff after the first failure and the longest one, in seconds. It doubles with each failure. A
        maximum of 0 turns backoff off. The longest one of pods that are tried as a group grows with the
        square root of their number (v1.37).
    in_windows : bool
        Round ends down to whole seconds, and order the pods of one second as the active queue does. This
        holds where pods may be popped before their backoff ends.
    rank : callable
        Returns a pod's rank in the active queue, a tuple. It also orders pods with equal ends where
        `in_windows` is False; upstream's heap leaves that order open.

    Attributes
    ----------
    rejected, failed : Lane
        The pods that were rejected, and those that failed with an error.
    """

    def __cinit__(self, double initial, double maximum, bint in_windows, rank not None):
        self.initial, self.maximum = microseconds(initial), microseconds(maximum)
        self.window = SECOND if in_windows else 1
        self.rejected, self.failed = Lane(partial(_rank, rank)), Lane(partial(_rank, rank))

    cpdef int64_t until(self, QueuedPodInfo info) except -1:
        """Return when an entry's backoff ends, in microseconds; 0 for one without backoff.

        The end is stored in the entry, so that it is computed once for each attempt.
        """
        cdef int64_t count
        if info is None:
            raise TypeError("a pod is None")
        if not info.until:
            count = info.consecutive_errors_count or info.unschedulable_count
            if count and self.maximum:
                maximum = <int64_t>(self.maximum * sqrt(info.size)) if info.size > 1 else self.maximum
                is_longest = self.initial > maximum >> (count - 1)
                backoff = maximum if is_longest else self.initial << (count - 1)
                info.until = self.rounded(microseconds(info.timestamp) + backoff)
        return info.until

    cdef object rounded(self, object at):
        """Return a time in microseconds, rounded down to the ordering window."""
        return at - at % self.window

    cpdef bint is_backing_off(self, QueuedPodInfo info, double now) except -1:
        """Whether the backoff of an entry has not ended at a time in seconds. It ends after the window that
        the end falls in."""
        until = self.until(info)  # raises TypeError for None
        return until != 0 and until >= self.rounded(microseconds(now))

    cdef Lane heap_of(self, QueuedPodInfo info):
        return self.rejected if info.place is BACKOFF else self.failed

    cdef int enter(self, QueuedPodInfo entry) except -1:
        self.until(entry)
        return self.heap_of(entry).enter(entry)

    cdef int leave(self, QueuedPodInfo entry) except -1:
        return self.heap_of(entry).leave(entry)

    cdef QueuedPodInfo completed(self, double now):
        """Return an entry whose backoff has ended at a time in seconds, or None: those that were rejected
        come first, each kind in the order of the ends."""
        cdef Lane heap
        cdef QueuedPodInfo entry
        end = self.rounded(microseconds(now))
        for heap in (self.rejected, self.failed):
            entry = heap.first()
            if entry is not None and entry.until < end:
                return entry
        return None

    def next_end(self):
        """Return when the first backoff ends, in microseconds; None if the queue is empty."""
        ends = [heap.next.until for heap in (self.rejected, self.failed) if heap.size]
        return min(ends, default=None)


def _rank(rank, QueuedPodInfo info not None):
    """Return the rank of a pod by the end of its backoff, then by its rank in the active queue."""
    return info.until, *rank(info)
