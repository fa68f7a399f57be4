from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport Lane, QueuedPodInfo, Waiting


cdef class BackoffQueue(Waiting):
    cdef readonly Lane rejected, failed
    cdef object initial, maximum, window  # times in microseconds

    cpdef int64_t until(self, QueuedPodInfo info) except -1
    cdef object rounded(self, object at)
    cpdef bint is_backing_off(self, QueuedPodInfo info, double now) except -1
    cdef Lane heap_of(self, QueuedPodInfo info)
    cdef QueuedPodInfo completed(self, double now)
