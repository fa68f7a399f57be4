from libc.stdint cimport int64_t


cdef class QueuedPodInfo:
    cdef public object pod, place, unit
    cdef readonly object uid
    cdef public frozenset unschedulable_plugins, pending_plugins
    cdef public str gating_plugin
    cdef public double timestamp
    cdef double first_ready  # NaN before
    cdef public int64_t attempts, unschedulable_count, consecutive_errors_count, order, until
    cdef public bint was_flushed
    # In a lane: the index in its list plus `Lane.gone`; -1 in its heap.
    cdef Py_ssize_t slot
    # In flight: the number of the first event after the pop, and the place that the pod was popped from.
    cdef int64_t cursor
    cdef object origin


cdef class KeyedHeap:
    cdef readonly dict entries
    cdef list heap

    cpdef add(self, rank, QueuedPodInfo info)
    cpdef remove(self, str uid)
    cpdef tuple peek(self)
    cpdef QueuedPodInfo pop(self)


cdef class Entrance:
    cdef dict rules, nominated
    cdef object name, fields, held, asked  # the rule of the last scheduler name
    cdef bint is_known

    cpdef bint passes(self, pod) except -1
    cdef bint is_nominated(self, pod) except -1
