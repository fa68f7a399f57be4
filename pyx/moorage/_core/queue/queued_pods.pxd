from libc.stdint cimport int64_t


cdef class QueuedGroupInfo


cdef class QueuedPodInfo:
    cdef public object pod, place, unit
    cdef readonly object uid
    cdef public QueuedGroupInfo group
    cdef str made_key  # None before the first use
    cdef public frozenset unschedulable_plugins, pending_plugins
    cdef public str gating_plugin
    cdef public double timestamp, flushed_at
    cdef double first_ready  # NaN before
    cdef public int64_t attempts, unschedulable_count, consecutive_errors_count, order, until, size
    cdef public bint was_flushed
    # In a lane: the index in its list plus `Lane.gone`; -1 in its heap.
    cdef Py_ssize_t slot
    # In flight: its index among the pods in flight, the number of the first event after the pop, and the
    # place that the pod was popped from.
    cdef Py_ssize_t seat
    cdef int64_t cursor
    cdef object origin

    cpdef int note_failure(self, plugins, double time) except -1


cdef class QueuedGroupInfo(QueuedPodInfo):
    cdef readonly dict members

    cpdef int join(self, QueuedPodInfo info) except -1
    cpdef int part(self, QueuedPodInfo info) except -1
    cdef list released(self)
    cpdef list ordered(self)


cdef str entry_key(QueuedPodInfo info)


cdef class KeyedHeap:
    cdef readonly dict entries
    cdef list heap

    cpdef add(self, rank, QueuedPodInfo info)
    cpdef remove(self, str uid)
    cpdef tuple peek(self)
    cpdef QueuedPodInfo pop(self)


cdef class PriorityLanes:
    cdef dict lanes
    cdef readonly Py_ssize_t size

    cpdef add(self, QueuedPodInfo info)
