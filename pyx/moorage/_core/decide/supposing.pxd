from libc.stdint cimport int32_t, uint64_t

from moorage._core.decide.nominations cimport Judgements
from moorage._core.decide.search cimport Search


cdef class Supposing(Search):
    cdef public object judging
    cdef dict judgements

    cdef bint _judge(self, int32_t pod_class, int32_t row, list changes, object ports, uint64_t asked,
                     object judging, uint64_t* verdict) except -1
    cdef int _count_unlisted(self, list changes, int32_t sign) except -1
    cdef bint _ask(self, int32_t row, uint64_t asked, uint64_t* verdict) noexcept
    cdef bint _is_plain(self, list pods) except -1
    cdef Judgements _judgements_of(self, int32_t pod_class)
    cdef bint _can_follow_judgements(self, Judgements one) except -1
    cdef int _judge_row(self, int32_t row, int32_t pod_class) except -1
    cdef int _judge_plain(self, int32_t row, list pods, uint64_t* verdict) except -1
