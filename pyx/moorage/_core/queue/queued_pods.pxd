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
    # In flight: the number of the first event after the pop, and the place that the pod was popped from.
    cdef int64_t cursor
    cdef object origin

    cdef int assign(self, QueuedPodInfo other) except -1
    cdef list listed(self)
    cpdef list ordered(self)
    cdef int move_to(self, place) except -1
    cdef int note_ready(self, double time) except -1
    cpdef int note_failure(self, plugins, double time, bint is_error) except -1


cdef class QueuedGroupInfo(QueuedPodInfo):
    cdef readonly dict members

    cdef int join(self, QueuedPodInfo info) except -1
    cdef int part(self, QueuedPodInfo info) except -1
    cdef int clear(self) except -1
    cdef list released(self)


cdef str entry_key(QueuedPodInfo info)


cdef class Waiting:
    cdef readonly Py_ssize_t size

    cdef int enter(self, QueuedPodInfo entry) except -1
    cdef int leave(self, QueuedPodInfo entry) except -1
    cdef QueuedPodInfo first(self)
    cdef int drop(self, QueuedPodInfo first) except -1
    cpdef list pop(self, Py_ssize_t limit)


cdef class KeyedHeap(Waiting):
    cdef dict entries
    cdef list heap
    cdef readonly object rank


cdef class Lane(Waiting):
    cdef list pods              # in order from `begin` on; None in place of a removed entry
    cdef Py_ssize_t begin, removed
    cdef Py_ssize_t gone        # number of entries that have left the beginning of `pods`
    cdef readonly object rank
    cdef tuple last             # the rank of the last entry that was added to `pods`
    cdef KeyedHeap out_of_order


cdef class PriorityLanes(Waiting):
    cdef dict lanes

    cdef int left(self, Lane lane, priority, Py_ssize_t number) except -1
