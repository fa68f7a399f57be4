from libc.stdint cimport int64_t

from moorage._core.queue.queued_pods cimport QueuedPodInfo


cdef class Numbers:
    cdef public int64_t last


cdef class InFlight:
    cdef list seats         # the pods in the order of their pops; None where an attempt has ended
    cdef Py_ssize_t n       # the number of pods
    cdef dict known         # the pods by UID; None until one is looked up
    cdef bint may_repeat    # whether a waiting pod may have the UID of one in flight
    cdef list log           # (event, old object, new object) or (event, notice), from `first` on
    cdef Py_ssize_t first
    cdef int64_t dropped    # number of events before `log`: no pod in flight needs them
    cdef dict before        # number of an event: number of pods for which it is the first after the pop

    cdef list listed(self)
    cdef dict by_uid(self)
    cdef list _from(self, Py_ssize_t first)
    cdef int _count(self, int64_t cursor, int64_t more) except -1
    cdef int _set(self, list infos) except -1
    cdef int _seat(self, list infos) except -1
    cpdef finish(self, list infos)
    cdef int _tidy(self) except -1
    cdef bint is_as_popped(self, QueuedPodInfo info, latest) except -1
    cdef int _drop(self) except -1
