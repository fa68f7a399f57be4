from moorage._core.queue.backoff_queue cimport BackoffQueue
from moorage._core.queue.entrance cimport Entrance, GroupedPods
from moorage._core.queue.in_flight cimport InFlight, Numbers
from moorage._core.queue.queued_pods cimport QueuedPodInfo
from moorage._core.queue.unschedulable_pods cimport UnschedulablePods


cdef class PodQueue:
    cdef public dict infos
    cdef public object active, now
    cdef public BackoffQueue backoff
    cdef public UnschedulablePods unschedulable
    cdef public GroupedPods units
    cdef readonly InFlight in_flight
    cdef readonly Numbers numbers
    cdef readonly Entrance entrance
    cdef readonly bint pop_from_backoff, groups_pods

    cdef int wait(self, QueuedPodInfo info, place) except -1
    cdef bint passes(self, QueuedPodInfo info, set groups) except -1
