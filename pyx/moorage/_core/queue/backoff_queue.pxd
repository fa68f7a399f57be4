from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport KeyedHeap, QueuedPodInfo


cdef class BackoffQueue:
    cdef dict heaps  # by Place
    cdef readonly KeyedHeap rejected, failed
    cdef object initial, maximum, window, rank  # times in microseconds

    cpdef object until(self, QueuedPodInfo info)
    cdef object end_of(self, double timestamp, int64_t count, int64_t size)
    cdef object rounded(self, object at)
    cpdef bint is_backing_off(self, QueuedPodInfo info, double now) except -1
    cpdef add(self, QueuedPodInfo info)
