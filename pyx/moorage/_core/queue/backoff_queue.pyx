"""The backoff queue: pods whose last attempt failed, until their backoff ends. Not thread-safe; the queue has
a lock.

kube-scheduler v1.36, backend/queue/backoff_queue.go.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport KeyedHeap, QueuedPodInfo
from moorage._core.queue.queued_pods import Place
from moorage._core.queue.unschedulable_pods cimport microseconds

cdef object SECOND = 1_000_000


cdef class BackoffQueue:
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
    rejected, failed : KeyedHeap
        The pods that were rejected, and those that failed with an error.
    """

    def __cinit__(self, double initial, double maximum, bint in_windows, rank not None):
        self.initial, self.maximum = microseconds(initial), microseconds(maximum)
        self.window = SECOND if in_windows else 1
        self.rank = rank
        self.rejected, self.failed = KeyedHeap(), KeyedHeap()
        self.heaps = {Place.BACKOFF: self.rejected, Place.ERROR_BACKOFF: self.failed}

    @property
    def shortest(self):
        """The shortest backoff, in microseconds."""
        return min(self.initial, self.maximum)

    cpdef object until(self, QueuedPodInfo info):
        """Return when a pod's backoff ends.

        The end is stored in the pod, so that it is computed once for each attempt.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        int
            Microseconds; 0 for a pod without backoff.
        """
        if info is None:
            raise TypeError("a pod is None")
        if not info.until:
            count = info.consecutive_errors_count or info.unschedulable_count
            info.until = self.end_of(info.timestamp, count, info.size)
        return info.until

    cdef object end_of(self, double timestamp, int64_t count, int64_t size):
        """Return when the backoff after so many failures, the last one at a time in seconds, ends; `size` is
        the number of pods that are tried together."""
        if count == 0 or self.maximum == 0:
            return 0
        shift = count - 1
        maximum = <int64_t>(self.maximum * sqrt(<double>size)) if size > 1 else self.maximum
        backoff = maximum if self.initial > maximum >> shift else self.initial << shift
        return self.rounded(microseconds(timestamp) + backoff)

    cdef object rounded(self, object at):
        """Return a time in microseconds, rounded down to the ordering window."""
        return at - at % self.window

    cpdef bint is_backing_off(self, QueuedPodInfo info, double now) except -1:
        """Whether the backoff of a pod has not ended. It ends after the window that the end falls in.

        Parameters
        ----------
        info : QueuedPodInfo
        now : float
            Seconds.

        Returns
        -------
        bool
        """
        until = self.until(info)  # raises TypeError for None
        return until != 0 and until >= self.rounded(microseconds(now))

    cpdef add(self, QueuedPodInfo info):
        """Add a pod to the heap of its `place`.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        if info is None:
            raise TypeError("a pod is None")
        cdef KeyedHeap heap = self.heaps[info.place]
        heap.add((self.until(info), *self.rank(info)), info)

    def remove(self, QueuedPodInfo info not None):
        """Remove a pod from the heap of its `place`.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        cdef KeyedHeap heap = self.heaps[info.place]
        heap.remove(info.uid)

    def pop_completed(self, double now):
        """Remove and return the pods whose backoff has ended.

        Parameters
        ----------
        now : float
            Seconds.

        Returns
        -------
        list of QueuedPodInfo
            Rejected pods first, each kind in the order of the ends.
        """
        cdef KeyedHeap heap
        cdef list completed = []
        end = self.rounded(microseconds(now))
        for heap in (self.rejected, self.failed):
            while heap.entries and heap.peek()[0][0] < end:
                completed.append(heap.pop())
        return completed

    def next_end(self):
        """Return when the first backoff ends, in microseconds; None if the queue is empty."""
        cdef KeyedHeap heap
        ends = [heap.peek()[0][0] for heap in (self.rejected, self.failed) if heap.entries]
        return min(ends, default=None)
