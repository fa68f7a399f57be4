from moorage._core.queue.queued_pods cimport QueuedPodInfo


cdef class CreationClock:
    cdef public double now
    cdef object seconds, text
    cdef double at  # the time of `text`, which was read last

    cpdef QueuedPodInfo entry(self, pod)


cdef class Entrance:
    cdef dict rules
    cdef object name, fields, held, asked, asked_by_group  # the rule of the last scheduler name
    cdef bint is_known

    cdef bint passes(self, pod, set groups) except -1
    cdef bint group_passes(self, pod, set groups) except -1
