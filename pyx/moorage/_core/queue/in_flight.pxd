from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport QueuedPodInfo


cdef class InFlight:
    cdef readonly dict pods  # by UID, in the order of their pops
    cdef list log            # (event, notice)
    cdef int64_t dropped     # the number of events before `log`

    cdef bint has(self, QueuedPodInfo info) except -1
    cdef int64_t first(self) except -1
    cdef list since(self, int64_t number)
    cdef bint take(self, QueuedPodInfo info, place) except -1
    cdef int drop(self) except -1
    cdef int leave(self, QueuedPodInfo info) except -1
