from moorage._core.queue.backoff_queue cimport BackoffQueue
from moorage._core.queue.entrance cimport Entrance
from moorage._core.queue.in_flight cimport InFlight, Numbers
from moorage._core.queue.queued_pods cimport QueuedPodInfo
from moorage._core.queue.unschedulable_pods cimport UnschedulablePods


cdef class PodQueue:
    cdef public dict infos, groups
    cdef public object active, now
    cdef public BackoffQueue backoff
    cdef public UnschedulablePods unschedulable
    cdef readonly InFlight in_flight
    cdef readonly Numbers numbers
    cdef readonly Entrance entrance
    cdef readonly object top_of
    cdef readonly bint pop_from_backoff, groups_pods

    cdef int wait(self, QueuedPodInfo info, place) except -1
    cdef object unit_of(self, key, dict tops)
    cdef int join_active(self, QueuedPodInfo info, unit) except -1
    cdef bint passes(self, QueuedPodInfo info, set groups) except -1
