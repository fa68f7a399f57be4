from libc.stdint cimport int32_t, uint64_t

from moorage._core.decide.search cimport Search


cdef class Supposing(Search):
    cdef public object judging

    cdef bint _judge(self, int32_t pod_class, int32_t row, list changes, object ports, uint64_t asked,
                     object judging, uint64_t* verdict) except -1
    cdef int _count_unlisted(self, list changes, int32_t sign) except -1
    cdef bint _ask(self, int32_t row, uint64_t asked, uint64_t* verdict) noexcept
    cdef bint _is_plain(self, list pods) except -1
    cdef int _judge_plain(self, int32_t row, list pods, uint64_t* verdict) except -1
